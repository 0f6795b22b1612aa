"""Report of `accelkit plugins`: the installed plug-ins of other distributions, and their problems."""
