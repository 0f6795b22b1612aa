"""The cache agent of a node: prepares what its cards can load, and says what it has."""
