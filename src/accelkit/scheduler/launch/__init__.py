"""Launch kinds of kube-scheduler, one module for each."""
