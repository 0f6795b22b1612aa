"""What the stages of enablement found on the nodes, as the watch of nodes shows it, for metrics."""
