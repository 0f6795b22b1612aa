"""Kubernetes API access: connections, requests, watches, leases, events. Only this package calls the API server."""
