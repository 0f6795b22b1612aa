"""Finds which smallest change would let a pod in: pure functions, which ask `fit.place` what would be."""
