"""The policy `topology`: which sets of cards are connected best, and what their use breaks up."""
