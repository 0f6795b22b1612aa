"""Judgement of the stages of enablement from facts, without I/O."""
