"""Report for `accelkit plugins`: the installed plug-ins from other Python distributions, and their problems."""
