"""The custom resources of kernel caches: types, conditions, names, and where their files lie; no I/O."""
