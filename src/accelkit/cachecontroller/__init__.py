"""The cache controller: it verifies images, creates claims, and changes pods that mount kernel caches."""
