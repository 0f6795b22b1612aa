"""Enablement of nodes, from bare to monitored: stages, check pods, the stage report, drivers, and owners of nodes."""
