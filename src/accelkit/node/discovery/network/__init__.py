"""NICs of the host, and obstacles to direct access between NICs and cards."""
