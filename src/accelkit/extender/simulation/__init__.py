"""Simulations for `POST /simulate`: the results of the verbs for a pod, and changes that would make it fit."""
