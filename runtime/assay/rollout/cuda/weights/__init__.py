"""Weights on the device: how they are packed, staged beside the kernel, and which version lies
where."""
