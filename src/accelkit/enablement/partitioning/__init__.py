"""Parts of a cluster for parts of its work: taints, roles and pools of nodes, recorded first and taken back exactly."""
