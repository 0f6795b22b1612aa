"""Simulations for `POST /simulate`: the results of the verbs for a pod, and changes after which it would fit."""
