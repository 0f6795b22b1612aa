"""Who owns the cards of a node: operators, device plugins and DRA drivers of others, told by what only they write."""
