"""Pod webhook, which replaces kernel caches in pods with a read-only mount of one digest, or with a private copy."""
