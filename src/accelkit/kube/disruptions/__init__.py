"""Evicting pods, and the budgets that forbid it."""
