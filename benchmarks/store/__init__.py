"""The store: cost of a call, bytes per request, what a crash loses."""
