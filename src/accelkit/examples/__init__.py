"""Example manifests for GKM's custom resources, made from a handful of options, as GKM's own examples are named."""
