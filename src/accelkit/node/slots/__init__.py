"""Slots: each card can be allocated several times, by GAS's resources `gpu.intel.com/i915` and `gpu.intel.com/xe`."""
