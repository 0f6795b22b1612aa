"""What only OpenShift has: constraints of security contexts, sets of machines, and their autoscalers."""
