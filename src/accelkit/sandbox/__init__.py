"""The embedded cluster: a real control plane, simulated nodes."""
