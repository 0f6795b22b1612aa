"""Check of this machine's cards, drivers and libraries for the node agent, which needs no cluster."""
