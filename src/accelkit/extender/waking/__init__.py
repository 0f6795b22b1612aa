"""Waking of the pods that kube-scheduler has rejected, after cards were freed."""
