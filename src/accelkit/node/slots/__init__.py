"""Slots, which allow several allocations of one card through GAS's resources `gpu.intel.com/i915` and `…/xe`."""
