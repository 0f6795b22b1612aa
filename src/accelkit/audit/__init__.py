"""Audit of the ledger, the assignments, the kubelets' allocations and the cards."""
