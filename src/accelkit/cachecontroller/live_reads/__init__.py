"""What must not rest on watches, which may be late: it is asked of the API server at the moment when it counts."""
