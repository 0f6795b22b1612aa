"""Example manifests for GKM's custom resources, which are generated from five options. Their names are as in GKM."""
