"""In-memory ledger of all assignments in a cluster, which is updated from pods and nodes, without I/O."""
