"""Selection of pods that must leave so that a pod of higher priority gets a card: the preempt verb, and evictions."""
