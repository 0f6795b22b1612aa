"""What is to be done about each cache, decided from what is known; no I/O."""
