"""Remediation of failed cards: cordon, condition, taint, drain, and their removal after the repair."""
