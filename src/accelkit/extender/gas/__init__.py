"""The extender with the flags of Intel's GPU Aware Scheduling, as a replacement for that program."""
