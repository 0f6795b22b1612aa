"""Rules from kube-scheduler that accelkit also evaluates."""
