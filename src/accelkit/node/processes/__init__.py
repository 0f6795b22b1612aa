"""Comparison of the processes on the node's cards with the shares of their pods."""
