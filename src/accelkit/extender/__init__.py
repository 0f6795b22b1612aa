"""The scheduler extender: kube-scheduler asks it which nodes fit, how good they are, and to bind."""
