"""Preemption for pods of higher priority that need cards: the preempt verb, and evictions."""
