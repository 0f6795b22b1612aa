"""Wakes pods that kube-scheduler has refused, once cards are freed."""
