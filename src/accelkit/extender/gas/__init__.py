"""Replacement for Intel's GPU Aware Scheduling: the extender with the flags of that program."""
