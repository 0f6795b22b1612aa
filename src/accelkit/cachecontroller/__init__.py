"""The controller of kernel caches: judges images, makes claims, and mends pods that mount them."""
