"""Partitioning of a cluster: taints, roles and pools of nodes, with a record of the changes for their removal."""
