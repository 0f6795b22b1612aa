"""Facts about nodes, derived from lists without I/O."""
