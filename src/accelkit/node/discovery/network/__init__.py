"""NICs of the host, and the obstacles to direct access between NICs and cards."""
