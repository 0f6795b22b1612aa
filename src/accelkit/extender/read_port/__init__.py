"""The port on which people and tools read, known by tokens instead of certificates."""
