"""Cards that say themselves what kernels for them are compiled for, as simulated ones do."""

from __future__ import annotations

import pytest

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdict, NodeHardware, judge
from accelkit.kernelcache.formats import ImageLabels, Target
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory

ROCM = Target("hip", "gfx90a", 64)
CUDA = Target("cuda", "75", 32)


def publish(card: Card) -> tuple[Card, ...]:
    """Return what others read of a card that a node's agent publishes."""
    return decode_inventory(encode_inventory(Inventory(2**30, (card,)))).cards


@pytest.mark.parametrize(
    ("target", "said", "verdict"),
    [
        (ROCM, "hip:gfx90a", CompatibilityVerdict.COMPATIBLE),
        (ROCM, "rocm:gfx90a:sramecc+:xnack-", CompatibilityVerdict.COMPATIBLE),
        (CUDA, "cuda:75", CompatibilityVerdict.COMPATIBLE),
        (CUDA, "cuda:sm_75", CompatibilityVerdict.COMPATIBLE),
        (ROCM, "hip:gfx942", CompatibilityVerdict.INCOMPATIBLE),
        (ROCM, "cuda:75", CompatibilityVerdict.INCOMPATIBLE),
        (ROCM, "", CompatibilityVerdict.UNKNOWN),
    ],
)
def test_simulated_card_is_judged_by_its_published_target(target: Target, said: str, verdict: CompatibilityVerdict):
    cards = publish(Card("sim-0", "simulated", "sim-16g", 2**34, target=said))
    (found,) = judge(ImageLabels(format="triton", targets=(target,)), NodeHardware.from_inventory(cards)).cards
    assert found.verdict is verdict


def test_published_target_overrides_the_card_model():
    cards = publish(Card("GPU-1", "nvidia", "NVIDIA H100 80GB HBM3", None, target="cuda:90a"))
    (facts,) = NodeHardware.from_inventory(cards, driver_version="550.54.14").gpus or ()
    assert (facts.backend, facts.arch, facts.driver_version) == ("cuda", "90a", "550.54.14")
