"""Features of OpenShift: security context constraints, machine sets, and their autoscalers."""
