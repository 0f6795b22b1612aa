"""Simulations for `POST /simulate`: the results of filter, prioritize and bind for a pod, and changes that help it."""
