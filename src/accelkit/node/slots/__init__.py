"""Slots, which allow several allocations of one card as GAS's resources `gpu.intel.com/i915` and `gpu.intel.com/xe`."""
