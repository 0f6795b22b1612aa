"""Pod webhook, which replaces kernel cache volumes in pods with a read-only mount of one digest or a private copy."""
