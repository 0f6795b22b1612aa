"""Predictions whether nodes will work with another kernel, another version of Kubernetes, or another driver."""
