from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "registries.fixtures",
    "tiers",
    "plugin_distributions",
    "sandbox_groups",
    "skips",
    "support.argument_order",
    "support.quarantine",
    "support.results",
    "support.timings",
    "standin_nvml.fixtures",
    "pytester",
]

_LONGEST_ID = 200

# Shared machines stall at random: a deadline per example would fail tests for the machine's sake.
for name, examples in {"accelkit": 60, "brief": 5}.items():
    settings.register_profile(
        name, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "accelkit"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name what is long by its length: programs that a test starts have its name in their environment."""
    return f"{argname}-{len(val)}" if isinstance(val, str | bytes) and len(val) > _LONGEST_ID else None
