"""What this machine's cards, drivers and libraries give to the node agent; needs no cluster."""
