"""A fake host, whose cards are files."""
