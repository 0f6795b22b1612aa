"""The extender under the flags of Intel's GPU Aware Scheduling, for those who started that one before."""
