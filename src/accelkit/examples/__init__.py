"""Example manifests for GKM's custom resources, generated from five options and named like GKM's examples."""
