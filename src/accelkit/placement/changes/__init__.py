"""Pure functions that find the smallest change that would make a pod fit. `fit.place` evaluates each trial."""
