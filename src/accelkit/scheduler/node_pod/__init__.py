"""Switch of kube-scheduler by a pod on its node, for users with a kubeconfig but without shell access to the host."""
