"""The stage report, with its values, formats and exit code."""
