"""What `math.verify` does before it is confined: it imports, and exercises what it imported."""
