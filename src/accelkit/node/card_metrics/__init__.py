"""What the cards of this node do, as metrics under names that are the same for all vendors."""
