"""Waking of pods that kube-scheduler has refused, after cards are freed."""
