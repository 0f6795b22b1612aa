"""Reconciliation of assignments with the devices that the kubelet allocated."""
