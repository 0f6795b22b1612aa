"""Values: cards, requests, assignments, inventories, the fields of pods and nodes that we read. Frozen, no I/O."""
