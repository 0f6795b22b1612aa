"""Planning of the next actions for each cache, from observed values; no I/O."""
