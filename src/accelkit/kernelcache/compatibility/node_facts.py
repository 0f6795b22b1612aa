"""Facts that compatibility is judged by: a node's cards and CPU, and the workload that is to use the cache.

None means unknown everywhere; an empty collection means that there is nothing.
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
        id: as in the node's inventory.
        backend: `cuda`, `hip` (`rocm` is the same), `hpu`, `xpu`….
        arch: `90`, `gfx942`, `gfx90a:sramecc+:xnack-`….
        product: the name that the vendor's library gives.
        driver_version: as `550.54.14`.
        cuda_version: the newest CUDA that the driver supports, as `12.4`.
    """

    id: str
    backend: str | None = None
    arch: str | None = None
    product: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None

    @property
    def on_cuda(self) -> bool:
        """Whether versions of CUDA decide if kernels load on it; not known counts as no."""
        return self.backend is not None and find_backend(self.backend).cuda_toolkit


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is to use the cache; the more of it is known, the surer is the guess whether it hits.

    Attributes:
        triton_version: as `3.2.0`.
        cuda_version: of its PyTorch (`torch.version.cuda`).
        cache_hash: the folder in `torch_compile_cache` that its vLLM looks for.
    """

    triton_version: str | None = None
    cuda_version: str | None = None
    cache_hash: str | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node; `cpu_architecture` in the words of Kubernetes and OCI (`amd64`), `gpus` empty where it has none."""

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
        """Make facts of what the node's agent published of its cards; None where its inventory is unknown.

        Args:
            cards: the inventory's, which name vendor and model; the architecture follows where the model is certain,
                unless the card says itself what kernels for it are compiled for.
            cpu_architecture: of the node.
            labels: of the node; those of GPU feature discovery count for cards that do not name their driver.
            driver_version: of its NVIDIA driver, whatever cards and labels say.
            cuda_version: the newest CUDA that this driver supports.
        """
        told = LabelledDriver(driver_version, cuda_version)
        labelled = read_driver_labels(labels)
        gpus = None if cards is None else tuple(_convert_card(card, told, labelled) for card in cards)
        return cls(cpu_architecture=cpu_architecture, gpus=gpus)


def _convert_card(card: Card, told: LabelledDriver, labelled: LabelledDriver) -> GpuFacts:
    named, _, arch = card.target.partition(":")
    backend = find_backend(named) if named else find_vendor_backend(card.vendor)
    on_cuda = backend is not None and backend.cuda_toolkit
    # The two facts are of one driver: what a label says of CUDA may be older than the driver that a card names.
    driver = next((each for each in (told, LabelledDriver(card.driver_version or None), labelled) if any(each)), told)
    return GpuFacts(
        id=card.id,
        backend=backend.name if backend is not None else None,
        arch=arch or (backend.find_architecture(card.model) if backend is not None else None),
        product=card.model or None,
        driver_version=driver.version if on_cuda else None,
        cuda_version=driver.cuda if on_cuda else None,
    )
