"""Pure functions that decide which cards a pod gets."""
