"""The cache controller, which verifies images, creates claims, and changes pods that mount kernel caches."""
