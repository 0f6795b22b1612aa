"""kube-scheduler rules that accelkit also evaluates."""
