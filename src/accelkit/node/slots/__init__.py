"""Slots, with which a card can be allocated several times as `gpu.intel.com/i915` or `gpu.intel.com/xe` of GAS."""
