"""Replays a trace of tasks on the nodes it names: what a policy makes of them, before a cluster is touched."""
