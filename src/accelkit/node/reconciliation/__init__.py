"""Reconciles assignments with what the kubelet gave."""
