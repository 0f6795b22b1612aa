"""The file of sharing rules, and what is shown of the rules as metrics."""
