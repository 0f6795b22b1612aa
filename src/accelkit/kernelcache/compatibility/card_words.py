"""Cards in the words of whoever asks about a cache: `cuda:90`, or the name of a node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeFacts
from accelkit.kernelcache.compatibility.node_reading import read_node
from accelkit.kernelcache.formats import Target
from accelkit.kernelcache.images import own_architecture


async def chosen_cards(
    cards: Sequence[str], node: str | None = None, kubeconfig: Path | None = None
) -> NodeFacts | None:
    """The cards that a cache is to be judged against; None where none are named.

    Args:
        cards: `BACKEND:ARCH` or `BACKEND:ARCH=PRODUCT`, in this machine.
        node: name of a node whose inventory tells its cards, instead.
        kubeconfig: of the node's cluster; None for the usual places.

    Raises:
        ConfigurationError: a card is not written so, or both are given.
        ApiError: the node cannot be read.
        InventoryError: its inventory cannot be used.
    """
    if node and cards:
        raise ConfigurationError("cards and a node are both given", next_step="leave one of them out")
    if node:
        async with ApiClient(load_connection(kubeconfig)) as api:
            return await read_node(api, node)
    if not cards:
        return None
    gpus = tuple(_card(number, text) for number, text in enumerate(cards))
    return NodeFacts(cpu_architecture=own_architecture(), gpus=gpus)


def named_target(text: str) -> Target | None:
    """What a cache was compiled for, as `BACKEND:ARCH` or `BACKEND`; None of an empty text."""
    backend, _, arch = text.partition(":")
    return Target(backend, arch or None) if backend else None


def _card(number: int, text: str) -> GpuFacts:
    backend, _, rest = text.partition(":")
    arch, _, product = rest.partition("=")
    if not backend or not arch:
        raise ConfigurationError(
            f"{text!r} is no card", next_step="write it as cuda:90 or hip:gfx942=AMD Instinct MI300X"
        )
    return GpuFacts(id=f"card-{number}", backend=backend, arch=arch, product=product or None)
