"""Direct reads from the API server, for decisions that must not depend on watches."""
