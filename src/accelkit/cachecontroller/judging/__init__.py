"""Evaluation of images, which resolves the digest and verifies the signatures through registries."""
