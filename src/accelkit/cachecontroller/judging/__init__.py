"""Judgement of images through registries: the digest of an image, and whether a signer of the policies signed it."""
