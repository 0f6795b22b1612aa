"""The webhook of pods: a pod that mounts a kernel cache gets one digest of it, read-only, or a copy of its own."""
