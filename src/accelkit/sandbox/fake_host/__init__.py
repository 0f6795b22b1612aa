"""A fake host, on which the cards are simulated by files."""
