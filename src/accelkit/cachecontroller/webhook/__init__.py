"""The pod webhook: a pod that mounts a kernel cache gets one digest of it, read-only, or a private copy."""
