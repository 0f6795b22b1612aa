"""Which cards a pod gets: pure functions, and the ledger that remembers who holds what. No I/O."""
