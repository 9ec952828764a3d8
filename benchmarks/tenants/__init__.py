"""What one tenant can make others wait for."""
