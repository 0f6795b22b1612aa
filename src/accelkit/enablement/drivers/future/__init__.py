"""Predictions of whether nodes will work with a different kernel, Kubernetes version or driver version."""
