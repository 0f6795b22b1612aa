"""The sharing rules file, and metrics about the rules."""
