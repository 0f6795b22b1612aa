"""Ledger of all assignments of a cluster, in memory and kept up to date from pods and nodes. No I/O."""
