"""The stage report: one value, and its texts, files and exit code."""
