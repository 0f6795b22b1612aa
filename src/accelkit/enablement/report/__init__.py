"""The stage report as a value, and its text, files and exit code."""
