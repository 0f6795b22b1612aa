"""Waking of the pods that kube-scheduler has refused, after cards were freed."""
