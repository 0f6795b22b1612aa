"""The example of GAS's own documents, on the ledger: three pods of 5 GB on a node of two cards of 8 GB."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Pod, PodRef
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader

GAS = load_dialect("gas")


def test_the_third_pod_of_the_example_does_not_fit():
    ledger = Ledger()
    cards = tuple(Card(f"card{number}", "intel", "m", 8 * 10**9, minor=number) for number in range(2))
    ledger.put_node("n", Inventory(10**9, cards))
    limits = {"gpu.intel.com/i915": "1", "gpu.intel.com/memory.max": "5G"}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    request = PodReader([GAS]).read(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)).read_request(10**9)
    placed = [ledger.reserve(PodRef("d", f"p{n}", f"u{n}"), "n", request, Policy.BINPACK) for n in range(2)]
    assert {assignment.containers["c"][0].card for assignment in placed} == {"card0", "card1"}
    with pytest.raises(MisfitError) as refused:
        ledger.reserve(PodRef("d", "p2", "u2"), "n", request, Policy.BINPACK)
    assert GAS.format_misfit(refused.value.misfit) == "Not enough GPU-resources for deployment: will not fit"
