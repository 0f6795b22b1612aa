"""Enforcement of the memory of shares on this host, by NVIDIA's driver, NVIDIA's MPS, or the kernel's dmem controller.

A share is enforced only if a mechanism outside its program refuses memory beyond the share. All other shares are
advisory, including shares whose enforcement is unknown. Paths are relative to a root folder, which differs in tests and
pods.
"""
