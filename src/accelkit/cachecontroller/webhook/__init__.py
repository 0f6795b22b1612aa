"""Pod webhook, which replaces kernel caches in pods with one digest, read-only, or with a private copy."""
