"""What a cache's claims, conditions and former digests ought to be; no I/O."""
