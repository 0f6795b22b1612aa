"""Issue, storage and renewal of the certificates with which kube-scheduler and the extender authenticate each other."""
