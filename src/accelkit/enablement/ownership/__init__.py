"""Who owns the cards of a node: operators, device plug-ins and DRA drivers of others, told by what only they write."""
