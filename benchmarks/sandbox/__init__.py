"""Cost of isolation, on this machine and on other Pythons, and stability under load."""
