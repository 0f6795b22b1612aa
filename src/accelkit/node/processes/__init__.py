"""Processes on the node's cards, compared with the shares of their pods."""
