"""The engine on this machine: the native runtime behind Python, its options, guard, trace."""
