"""Issuance, storage and renewal of the certificates that kube-scheduler and the extender use for mutual TLS."""
