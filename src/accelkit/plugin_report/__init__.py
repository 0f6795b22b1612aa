"""What `accelkit plugins` shows: the plug-ins that are installed beside accelkit, and what is wrong with each."""
