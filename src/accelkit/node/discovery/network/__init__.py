"""NICs beside the cards, and what keeps both from reaching each other without the host."""
