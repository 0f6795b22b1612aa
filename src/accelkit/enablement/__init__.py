"""Enablement of nodes, from bare to monitored: stages, check pods, the report, drivers, and owners of nodes."""
