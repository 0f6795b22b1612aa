"""Planning of the next actions for each cache, based on observed values and without I/O."""
