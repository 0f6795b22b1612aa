"""Files of caches that name other files by absolute path, and so have to be told where workloads see them."""
