"""Support for cards of Orrery, a fictional vendor, in accelkit."""
