"""Partitioning of a cluster: taints, roles and pools of nodes, which are recorded so that exactly these are removed."""
