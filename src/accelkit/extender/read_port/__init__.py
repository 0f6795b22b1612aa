"""Read port for users and tools that authenticate with tokens instead of certificates."""
