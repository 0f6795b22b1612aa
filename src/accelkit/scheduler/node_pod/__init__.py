"""Switch of kube-scheduler from a pod on its node, for users with a kubeconfig and without a shell on the host."""
