"""Sharing rules: which cards a pod may share with other pods, and how much its namespace may hold."""
