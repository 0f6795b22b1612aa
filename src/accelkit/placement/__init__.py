"""Decides which cards a pod gets: pure functions."""
