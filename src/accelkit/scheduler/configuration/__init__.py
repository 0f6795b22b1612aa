"""What is edited: configuration files of kube-scheduler, and the options that name them."""
