"""What every bench stands on: the machine it ran on, and the report."""
