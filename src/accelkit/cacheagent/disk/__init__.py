"""Store of caches on the node, with links and with state that survives restarts of the agent."""
