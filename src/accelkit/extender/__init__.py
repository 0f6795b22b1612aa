"""The scheduler extender, which kube-scheduler calls to filter and score nodes and to bind pods."""
