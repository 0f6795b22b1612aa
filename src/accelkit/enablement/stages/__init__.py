"""Evaluation of the enablement stages, based on facts and without I/O."""
