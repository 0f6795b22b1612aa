"""Facts that determine compatibility: the cards and CPU of a node, and the workload that uses the cache.

None always means unknown; an empty collection means that there are no items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from accelkit.kernelcache.compatibility.driver_labels import LabelledDriver, read_driver_labels
from accelkit.kernelcache.formats.backends import find_backend, find_vendor_backend
from accelkit.model.card import Card


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One card.

    Attributes:
        id: the ID in the node's inventory.
        backend: the backend, such as `cuda`, `hip` (or its alias `rocm`), `hpu` or `xpu`.
        arch: the architecture, such as `90`, `gfx942` or `gfx90a:sramecc+:xnack-`.
        product: the product name that the vendor's library returns.
        driver_version: the driver version, for example `550.54.14`.
        cuda_version: the newest CUDA version that the driver supports, for example `12.4`.
    """

    id: str
    backend: str | None = None
    arch: str | None = None
    product: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None

    @property
    def on_cuda(self) -> bool:
        """Whether the CUDA version determines if the card can load kernels; False if the backend is unknown."""
        return self.backend is not None and find_backend(self.backend).cuda_toolkit


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that uses the cache. The more facts are known, the more accurate the likelihood of a hit is.

    Attributes:
        triton_version: the Triton version, for example `3.2.0`.
        cuda_version: the CUDA version of the workload's PyTorch (`torch.version.cuda`).
        cache_hash: the name of the folder in `torch_compile_cache` that vLLM in the workload uses.
    """

    triton_version: str | None = None
    cuda_version: str | None = None
    cache_hash: str | None = None


class NodeHardware(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of a node. `cpu_architecture` is a Kubernetes or OCI name (`amd64`). `gpus` may be empty."""

    cpu_architecture: str | None = None
    gpus: tuple[GpuFacts, ...] | None = None

    @classmethod
    def from_inventory(
        cls,
        cards: Iterable[Card] | None,
        *,
        cpu_architecture: str | None = None,
        labels: Mapping[str, str] | None = None,
        driver_version: str | None = None,
        cuda_version: str | None = None,
    ) -> NodeHardware:
        """Return the facts about a node, given the cards that its agent published.

        Args:
            cards: the cards in the inventory, with their vendors and models; None if the inventory is unknown. The
                architecture is derived from the model if it is unambiguous, unless the inventory specifies the kernel
                target of the card.
            cpu_architecture: the CPU architecture of the node.
            labels: the labels of the node. Labels from GPU feature discovery apply to cards without a driver version in
                the inventory.
            driver_version: the version of the node's NVIDIA driver, which overrides the inventory and the labels.
            cuda_version: the newest CUDA version that this driver supports.
        """
        stated = LabelledDriver(driver_version, cuda_version)
        labelled = read_driver_labels(labels)
        gpus = None if cards is None else tuple(_convert_card(card, stated, labelled) for card in cards)
        return cls(cpu_architecture=cpu_architecture, gpus=gpus)


def _convert_card(card: Card, stated: LabelledDriver, labelled: LabelledDriver) -> GpuFacts:
    named, _, arch = card.target.partition(":")
    backend = find_backend(named) if named else find_vendor_backend(card.vendor)
    on_cuda = backend is not None and backend.cuda_toolkit
    # Both values must describe the same driver, because the CUDA version in a label may be older than the driver
    # version in the inventory.
    sources = (stated, LabelledDriver(card.driver_version or None), labelled)
    driver = next((each for each in sources if any(each)), stated)
    return GpuFacts(
        id=card.id,
        backend=backend.name if backend is not None else None,
        arch=arch or (backend.find_architecture(card.model) if backend is not None else None),
        product=card.model or None,
        driver_version=driver.version if on_cuda else None,
        cuda_version=driver.cuda if on_cuda else None,
    )
