"""The audit, which compares the ledger, the assignments, the kubelets' allocations and the cards."""
