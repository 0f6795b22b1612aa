"""The same switch from a pod on the node, for whoever has a kubeconfig and no shell on the host."""
