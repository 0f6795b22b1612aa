"""Report of `accelkit plugins`: the plug-ins that are installed alongside accelkit, and their problems."""
