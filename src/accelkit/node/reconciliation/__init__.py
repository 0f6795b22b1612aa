"""Keeps assignments equal to what the kubelet gave."""
