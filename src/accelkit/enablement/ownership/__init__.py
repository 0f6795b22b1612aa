"""Detection of other operators, device plugins and DRA drivers that own the cards of a node."""
