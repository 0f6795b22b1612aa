"""Custom resources for kernel caches: types, conditions, names and file paths, without I/O."""
