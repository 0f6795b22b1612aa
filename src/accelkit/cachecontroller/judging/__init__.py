"""Evaluation of images: requests to registries resolve the digest and verify the signatures."""
