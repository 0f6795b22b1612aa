"""`accelkit defrag`: which few evictions would let pods in that wait for cards."""
