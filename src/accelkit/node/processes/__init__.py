"""Processes on the node's cards, and whether they stay within their pods' shares."""
