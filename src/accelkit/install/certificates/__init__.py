"""The certificates by which kube-scheduler and the extender know each other: issued, kept and renewed."""
