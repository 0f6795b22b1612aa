"""The Kubernetes API: connections, requests, list and watch. Nothing else talks to the API server."""
