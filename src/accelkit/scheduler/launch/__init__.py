"""Launch kinds of kube-scheduler, with one module for each kind."""
