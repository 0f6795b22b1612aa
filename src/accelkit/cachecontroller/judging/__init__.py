"""Which digest an image has, and whether somebody whom the policies name signed it: what registries are asked."""
