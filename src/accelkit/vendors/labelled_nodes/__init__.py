"""What labels and status of nodes say of cards, in the words of other systems."""
