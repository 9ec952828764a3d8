"""The engine on NVIDIA GPUs: one persistent kernel behind rings. Nothing is imported here: the
bindings and the compiler are loaded by the modules that use them."""
