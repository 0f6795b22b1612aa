"""Answers `POST /simulate`: what filter, prioritize and bind would say of a pod, and what would let it in."""
