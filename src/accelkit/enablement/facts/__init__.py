"""What is known of nodes, put together from lists that were read before: no I/O."""
