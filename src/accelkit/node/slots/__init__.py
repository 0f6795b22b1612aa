"""Cards that are given a number of times each, by resources that count cards: `gpu.intel.com/i915` and `xe` of GAS."""
