"""Vendors, described as data: hardware profiles, and the dialects of pods and nodes."""
