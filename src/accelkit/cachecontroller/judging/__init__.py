"""Judgement of images: resolution of the digest and verification of signatures, through registries."""
