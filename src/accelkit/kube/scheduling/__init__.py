"""Rules of kube-scheduler that accelkit also evaluates."""
