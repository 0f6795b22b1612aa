"""The policy `topology`: which sets of cards are best connected, and which groups their use breaks up."""
