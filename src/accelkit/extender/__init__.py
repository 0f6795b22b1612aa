"""The scheduler extender, which kube-scheduler calls to filter nodes, to score them, and to bind pods."""
