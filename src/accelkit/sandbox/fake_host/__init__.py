"""A host whose cards are files."""
