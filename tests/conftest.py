from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "registries.fixtures",
    "plugin_distributions",
    "sandbox_groups",
    "skips",
    "standin_nvml.fixtures",
    "pytester",
]

# Shared machines stall at random: a deadline per example would fail tests for the machine's sake.
for name, examples in {"accelkit": 60, "brief": 5}.items():
    settings.register_profile(
        name, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "accelkit"))
