"""Vendors as data: profiles of hardware, and the dialects of pods and nodes."""
