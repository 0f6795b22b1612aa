"""Cache store on the node, with links, and with state that persists across agent restarts."""
