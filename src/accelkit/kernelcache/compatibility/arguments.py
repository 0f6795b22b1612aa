"""Parsers for command and module arguments: cards (`cuda:90`), a node, driver versions and workload versions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeHardware, WorkloadFacts
from accelkit.kernelcache.compatibility.node_reading import read_node
from accelkit.kernelcache.compatibility.ptx import parse_version
from accelkit.kernelcache.formats import Target
from accelkit.kernelcache.formats.backends import find_backend
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.options import ConnectionOptions

_NAME_CARDS = "specify cards or a node"


async def resolve_cards(
    cards: Sequence[str],
    node: str | None = None,
    cluster: ConnectionOptions | Path | None = None,
    *,
    driver_version: str | None = None,
    driver_cuda_version: str | None = None,
) -> NodeHardware | None:
    """Return the cards against which a cache is checked; None if neither cards nor a node are given.

    Args:
        cards: the cards, each as `BACKEND:ARCH` or `BACKEND:ARCH=PRODUCT`.
        node: name of a node; if it is specified instead of `cards`, the cards are read from the node's inventory.
        cluster: the connection to the node's cluster, or the path of a kubeconfig; None for the environment's default
            connection.
        driver_version: version of the NVIDIA driver for these cards, such as `550.54.14`.
        driver_cuda_version: the newest CUDA version that this driver supports, such as `12.4`.

    Raises:
        ConfigurationError: a card or a version is malformed, both cards and a node are given, or a driver is given
            without cards or a node.
        ApiError: the node cannot be read.
        InventoryError: the inventory of the node is invalid.
    """
    if node and cards:
        raise ConfigurationError("cannot use both cards and a node", next_step="specify only one of them")
    for version in filter(None, (driver_version, driver_cuda_version)):
        _require_version(version)
    driver = {"driver_version": driver_version, "driver_cuda_version": driver_cuda_version}
    if node:
        async with ApiClient(load_connection(cluster)) as api:
            return await read_node(api, node, **driver)
    if not cards:
        if driver_version or driver_cuda_version:
            raise ConfigurationError("a driver version requires cards", next_step=_NAME_CARDS)
        return None
    gpus = tuple(_parse_card(number, text, driver_version, driver_cuda_version) for number, text in enumerate(cards))
    return NodeHardware(cpu_architecture=read_host_architecture(), gpus=gpus)


def parse_workload(
    node: NodeHardware | None,
    *,
    triton_version: str | None = None,
    torch_cuda_version: str | None = None,
    vllm_cache_hash: str | None = None,
) -> WorkloadFacts:
    """Return the facts about the workload that uses the cache, from command or module arguments.

    Args:
        node: the cards against which the cache is checked.
        triton_version: the value of `triton.__version__`.
        torch_cuda_version: the value of `torch.version.cuda`.
        vllm_cache_hash: the name of the folder in `torch_compile_cache` that vLLM uses.

    Raises:
        ConfigurationError: a version is malformed, or a workload is given without cards.
    """
    if node is None and (triton_version or torch_cuda_version or vllm_cache_hash):
        raise ConfigurationError("cannot use workload versions without cards", next_step=_NAME_CARDS)
    if torch_cuda_version:
        _require_version(torch_cuda_version)
    return WorkloadFacts(
        triton_version=triton_version or None,
        cuda_version=torch_cuda_version or None,
        cache_hash=vllm_cache_hash or None,
    )


def parse_target(text: str | None) -> Target | None:
    """Return the target of a cache, written as `BACKEND:ARCH` or `BACKEND`; None if the text is empty."""
    backend, _, arch = (text or "").partition(":")
    return Target(backend, arch or None) if backend else None


def _require_version(text: str) -> None:
    if parse_version(text) is None:
        raise ConfigurationError(f"{text!r} is not a valid version", next_step="use numbers, such as 550.54.14 or 12.4")


def _parse_card(number: int, text: str, driver_version: str | None, driver_cuda_version: str | None) -> GpuFacts:
    backend, _, rest = text.partition(":")
    arch, _, product = rest.partition("=")
    if not backend or not arch:
        raise ConfigurationError(
            f"{text!r} is not a valid card", next_step="write it as cuda:90 or hip:gfx942=AMD Instinct MI300X"
        )
    on_cuda = find_backend(backend).cuda_toolkit
    return GpuFacts(
        id=f"card-{number}",
        backend=backend,
        arch=arch,
        product=product or None,
        driver_version=driver_version if on_cuda else None,
        cuda_version=driver_cuda_version if on_cuda else None,
    )
