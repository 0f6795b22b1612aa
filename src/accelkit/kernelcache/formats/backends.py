"""Compiler backends, loaded from a data file: names, cards, and the notation of architectures.

To add a backend or a card, add an entry to `data/backends.yaml`. No code change is required.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from accelkit.decoding import prepare
from accelkit.yaml import load_yaml

_WORD: Final = re.compile(r"[A-Za-z0-9]+")


class WarpSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The usual warp size of architectures with the prefix `architecture`, or of all cards if it is None."""

    threads: int
    architecture: str | None = None


class Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A compiler backend. `data/backends.yaml` describes the fields and lists all backends."""

    name: str
    aliases: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    names_architecture: bool = True
    architecture_prefix: str | None = None
    cuda_toolkit: bool = False
    warp_sizes: tuple[WarpSize, ...] = ()
    architectures: dict[str, tuple[str, ...]] = {}

    def find_architecture(self, model: str) -> str | None:
        """Return the architecture of a card; None if its model is unknown or ambiguous.

        Args:
            model: the model in the format of the vendor's tools, such as `NVIDIA H100 80GB HBM3` or `AMD Instinct
                MI250X / MI250`.
        """
        words = set(_WORD.findall(model))
        found = [name for name, models in self.architectures.items() if not words.isdisjoint(models)]
        return found[0] if len(found) == 1 else None

    def find_warp_size(self, architecture: str | None) -> int | None:
        """Return the usual number of threads per warp; None if it is unknown."""
        for each in self.warp_sizes:
            if each.architecture is None:
                return each.threads
            if architecture is not None and architecture.startswith(each.architecture):
                return each.threads
        return None

    def is_same_architecture(self, built: str, present: str) -> bool:
        """Return whether two notations describe the same architecture.

        A compatible architecture is not accepted. A cubin may run on a newer minor version, but the architecture is
        part of a kernel's key, so the framework would never find the kernel.
        """
        if self.architecture_prefix is not None:
            return self._strip_prefix(built) == self._strip_prefix(present)
        base, _, features = built.lower().partition(":")
        other, _, others = present.lower().partition(":")
        wanted, given = _parse_features(features), _parse_features(others)
        return base == other and all(given[name] == wanted[name] for name in wanted.keys() & given.keys())

    def add_prefix(self, architecture: str | None) -> str | None:
        """Return an architecture with the prefix of the backend, if the backend has one."""
        prefix = self.architecture_prefix
        if architecture is None or prefix is None or architecture.startswith(prefix):
            return architecture
        return f"{prefix}{architecture}"

    def _strip_prefix(self, architecture: str) -> str:
        """Return `90a` for `sm_90a` and `90` for `9.0`.

        The letter is significant, because kernels with a letter run only on this architecture.
        """
        prefix = (self.architecture_prefix or "").rstrip("_")
        return architecture.lower().removeprefix(prefix).removeprefix("_").replace(".", "")


prepare(Backend)


@cache
def load_backends() -> tuple[Backend, ...]:
    """Return all backends in `data/backends.yaml`."""
    text = (resources.files("accelkit.kernelcache.formats") / "data" / "backends.yaml").read_text("utf-8")
    document = load_yaml(text)
    return tuple(msgspec.convert({"name": name, **fields}, Backend) for name, fields in document.items())


def find_backend(name: str) -> Backend:
    """Return a backend by its name or alias, ignoring case. For an unknown backend, only the name is set."""
    lowered = name.lower()
    for each in load_backends():
        if lowered == each.name or lowered in each.aliases:
            return each
    return Backend(lowered)


def find_vendor_backend(vendor: str) -> Backend | None:
    """Return the backend that compiles for the cards of a vendor; None if no backend lists the vendor."""
    return next((each for each in load_backends() if vendor in each.vendors), None)


def _parse_features(text: str) -> dict[str, str]:
    """Return the sign of each feature in a text such as `sramecc+:xnack-`."""
    return {feature[:-1]: feature[-1] for feature in text.split(":") if feature[-1:] in {"+", "-"}}
