"""The stage report: one value, and the texts, files and exit code that are made of it."""
