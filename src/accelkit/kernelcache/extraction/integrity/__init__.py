"""What keeps an extracted cache as it was extracted, and finds out where it is not."""
