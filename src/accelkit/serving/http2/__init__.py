"""HTTP/2: connections, their streams, and what frames a client may send beside its requests."""
