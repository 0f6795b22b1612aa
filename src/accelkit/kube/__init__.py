"""The Kubernetes API: connections, requests, list and watch, leases, events. Nothing else talks to the API server."""
