"""Files of the control plane: the configuration of kube-scheduler, and what is kept to restore it."""
