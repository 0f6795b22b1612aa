"""Arguments of commands and modules, read: cards (`cuda:90`), the name of a node, versions of driver and workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.node_reading import read_node
from accelkit.kernelcache.compatibility.ptx import parse_version
from accelkit.kernelcache.formats import Target
from accelkit.kernelcache.formats.backends import find_backend
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.options import ConnectionOptions

_NAME_CARDS = "name the cards it is about, or a node"


async def resolve_cards(
    cards: Sequence[str],
    node: str | None = None,
    cluster: ConnectionOptions | Path | None = None,
    *,
    driver_version: str | None = None,
    driver_cuda_version: str | None = None,
) -> NodeFacts | None:
    """Return the cards that a cache is to be judged against; None where none are named.

    Args:
        cards: `BACKEND:ARCH` or `BACKEND:ARCH=PRODUCT`, in this machine.
        node: name of a node whose inventory tells its cards, instead.
        cluster: how the node's cluster is reached, or a kubeconfig's path; None for what the environment says.
        driver_version: of the NVIDIA driver of these cards, as `550.54.14`.
        driver_cuda_version: the newest CUDA that this driver supports, as `12.4`.

    Raises:
        ConfigurationError: a card or a version is not written so, both cards and a node are given, or a driver without
            either.
        ApiError: the node cannot be read.
        InventoryError: its inventory cannot be used.
    """
    if node and cards:
        raise ConfigurationError("cards and a node are both given", next_step="leave one of them out")
    for version in filter(None, (driver_version, driver_cuda_version)):
        _require_version(version)
    driver = {"driver_version": driver_version, "driver_cuda_version": driver_cuda_version}
    if node:
        async with ApiClient(load_connection(cluster)) as api:
            return await read_node(api, node, **driver)
    if not cards:
        if driver_version or driver_cuda_version:
            raise ConfigurationError("a driver is given without cards", next_step=_NAME_CARDS)
        return None
    gpus = tuple(_parse_card(number, text, driver_version, driver_cuda_version) for number, text in enumerate(cards))
    return NodeFacts(cpu_architecture=read_host_architecture(), gpus=gpus)


def parse_workload(
    node: NodeFacts | None,
    *,
    triton_version: str | None = None,
    torch_cuda_version: str | None = None,
    vllm_cache_hash: str | None = None,
) -> WorkloadFacts:
    """Return what is to use the cache, as far as it is stated.

    Args:
        node: the cards that the cache is judged against.
        triton_version: as `triton.__version__`.
        torch_cuda_version: as `torch.version.cuda`.
        vllm_cache_hash: the folder in `torch_compile_cache` that vLLM looks for.

    Raises:
        ConfigurationError: a version is not written so, or something is stated without cards.
    """
    if node is None and (triton_version or torch_cuda_version or vllm_cache_hash):
        raise ConfigurationError("a workload is described without cards", next_step=_NAME_CARDS)
    if torch_cuda_version:
        _require_version(torch_cuda_version)
    return WorkloadFacts(
        triton_version=triton_version or None,
        cuda_version=torch_cuda_version or None,
        cache_hash=vllm_cache_hash or None,
    )


def parse_target(text: str | None) -> Target | None:
    """Read what a cache was compiled for, as `BACKEND:ARCH` or `BACKEND`; None where nothing is given."""
    backend, _, arch = (text or "").partition(":")
    return Target(backend, arch or None) if backend else None


def _require_version(text: str) -> None:
    if parse_version(text) is None:
        raise ConfigurationError(f"{text!r} is no version", next_step="write it in numbers, as 550.54.14 or 12.4")


def _parse_card(number: int, text: str, driver_version: str | None, driver_cuda_version: str | None) -> GpuFacts:
    backend, _, rest = text.partition(":")
    arch, _, product = rest.partition("=")
    if not backend or not arch:
        raise ConfigurationError(
            f"{text!r} is no card", next_step="write it as cuda:90 or hip:gfx942=AMD Instinct MI300X"
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
