"""How kube-scheduler is started: one module for each form."""
