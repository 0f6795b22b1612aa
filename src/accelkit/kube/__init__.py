"""Kubernetes API access: connections, requests, watches, Leases and Events. Only this package calls the API server."""
