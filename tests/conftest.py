from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["registries.fixtures", "sandbox_groups", "skips", "pytester"]

# Shared machines stall at random: a deadline per example would fail tests for the machine's sake.
settings.register_profile(
    "accelkit", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("accelkit")
