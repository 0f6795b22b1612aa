"""Check of this machine's cards, drivers and libraries for the node agent, without a cluster."""
