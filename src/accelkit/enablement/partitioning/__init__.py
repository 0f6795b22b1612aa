"""Partitioning of a cluster by taints, roles and pools of nodes, with a record of the changes for later removal."""
