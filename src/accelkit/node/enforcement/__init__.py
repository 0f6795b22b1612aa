"""Enforcement of the memory of shares on this host: by NVIDIA's driver, by its MPS, or by the kernel's dmem controller.

A share is enforced only if a mechanism outside its program refuses memory beyond the share. All other shares are
advisory, including those whose enforcement is unknown. Paths are relative to a root folder, which tests and pods
replace.
"""
