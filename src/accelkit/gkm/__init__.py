"""The custom resources of kernel caches: types, conditions, names and paths of their files; no I/O."""
