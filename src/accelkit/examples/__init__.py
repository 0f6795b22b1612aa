"""Example manifests for GKM's custom resources, generated from five options. The names are the same as in GKM."""
