"""Vendors as data: profiles of hardware, and the dialects in which pods and nodes speak."""
