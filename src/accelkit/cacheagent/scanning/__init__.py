"""Looks at the private copies of pods, in a container of its own, and tells the agent what they made themselves."""
