"""Names and documents of images, as the OCI specifications define them."""
