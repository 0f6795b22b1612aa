"""In-memory ledger of all assignments of a cluster, updated from pods and nodes, without I/O."""
