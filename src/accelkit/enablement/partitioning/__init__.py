"""Partitioning of a cluster: taints, roles and pools of nodes, which are recorded and removed exactly."""
