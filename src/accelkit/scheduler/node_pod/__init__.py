"""The same switch from a pod on the node, for a user who has a kubeconfig and no shell on the host."""
