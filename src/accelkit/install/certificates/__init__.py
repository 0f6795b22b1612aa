"""Certificates by which kube-scheduler and the extender authenticate each other: issue, storage and renewal."""
