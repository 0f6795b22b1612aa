"""The audit: whether ledger, assignments, kubelets and cards agree."""
