"""Files in which administrators or tools list the cards of a host, name device nodes, or override facts of cards."""
