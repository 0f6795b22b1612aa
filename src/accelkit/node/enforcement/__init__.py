"""Enforcement of memory shares on this host by NVIDIA's driver, NVIDIA's MPS, or the kernel's dmem controller.

A share is enforced only if a mechanism outside the program denies allocations beyond the share. All other shares are
advisory, including shares whose enforcement is unknown. Paths are relative to a root folder, which is different in
tests and pods.
"""
