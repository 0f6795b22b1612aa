"""Factories of pods."""

from __future__ import annotations

from accelkit.model.pod import PodRef


def make_ref(name: str, namespace: str = "d") -> PodRef:
    return PodRef(namespace, name, f"uid-{name}")
