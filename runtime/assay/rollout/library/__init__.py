"""The compiled library: found, checked and bound once; the native engines that it offers."""
