"""What kube-scheduler goes by, as far as we judge it too."""
