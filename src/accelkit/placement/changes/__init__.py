"""Pure functions that find the smallest change after which a pod would fit. `fit.place` evaluates each trial."""
