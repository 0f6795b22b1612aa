"""Cards of Orrery, an invented vendor, for accelkit."""
