"""Rules of kube-scheduler that accelkit evaluates too."""
