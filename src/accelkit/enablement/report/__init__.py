"""The stage report: its values, formats and exit code."""
