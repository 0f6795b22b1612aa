"""Facts from which compatibility is derived: a node's cards and CPU, and the workload that uses the cache.

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
        backend: `cuda`, `hip` (`rocm` is the same), `hpu`, `xpu` and so on.
        arch: `90`, `gfx942`, `gfx90a:sramecc+:xnack-` and so on.
        product: the name that the vendor's library returns.
        driver_version: for example `550.54.14`.
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
        """Whether the CUDA version decides if kernels load on the card; False for an unknown backend."""
        return self.backend is not None and find_backend(self.backend).cuda_toolkit


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that uses the cache; the more facts are known, the more certain is the likelihood of a hit.

    Attributes:
        triton_version: for example `3.2.0`.
        cuda_version: the CUDA version of its PyTorch (`torch.version.cuda`).
        cache_hash: the folder in `torch_compile_cache` that its vLLM uses.
    """

    triton_version: str | None = None
    cuda_version: str | None = None
    cache_hash: str | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node; `cpu_architecture` has the values of Kubernetes and OCI (`amd64`), `gpus` is empty if it has no cards."""

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
    ) -> NodeFacts:
        """Return the facts about a node whose agent published these cards.

        Args:
            cards: the cards of the inventory, which name vendor and model; None if the inventory is unknown. The
                architecture is derived from an unambiguous model, unless the card states the target of its kernels.
            cpu_architecture: the CPU architecture of the node.
            labels: the labels of the node; GPU feature discovery's labels apply to cards that state no driver.
            driver_version: the version of its NVIDIA driver, which overrides cards and labels.
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
    # Both values must describe one driver: the CUDA version of a label may be older than the driver that a card states.
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
