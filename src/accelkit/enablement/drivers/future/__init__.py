"""Whether nodes will work with another kernel, another Kubernetes or another driver, before that is tried."""
