"""Who has to leave, so that a pod of higher priority gets a card: the verb preempt, and evictions by the leader."""
