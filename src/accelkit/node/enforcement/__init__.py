"""Enforcement of shares' memory on this host: by NVIDIA's driver, its MPS, the kernel's dmem controller, or not at all.

A share is enforced only where something other than its program refuses memory beyond it; anything else is advisory, and
what cannot be known is advisory too. Paths lie below a root that may be moved.
"""
