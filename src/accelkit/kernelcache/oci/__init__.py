"""Image names and documents, as defined by the OCI specifications."""
