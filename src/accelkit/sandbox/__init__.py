"""The sandbox: an embedded cluster with a real control plane and simulated nodes."""
