from __future__ import annotations

import pytest

from accelkit.errors import ProfileError
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.vendors.dialects import list_dialect_names, load_dialect, load_dialects
from accelkit.vendors.profiles import list_presence_labels, load_profiles


@pytest.mark.parametrize("name", list_dialect_names())
@pytest.mark.parametrize("reason", MisfitReason)
def test_every_dialect_has_a_sentence_for_every_reason(name, reason):
    text = load_dialect(name).format_misfit(Misfit(reason, 3, "this {odd} thing"))
    assert text
    assert "{cards}" not in text


def test_gcushares_users_read_the_sentence_they_know():
    assert (
        load_dialect("gcushare").format_misfit(Misfit(MisfitReason.MEMORY))
        == "insufficient GCU Memory in one gcu device"
    )


def test_the_native_sentence_names_its_own_resource():
    native = load_dialect("native")
    assert native.format_misfit(Misfit(MisfitReason.MEMORY)) == "insufficient accelkit.io/memory in one card"
    assert native.format_misfit(Misfit(MisfitReason.MEMORY_CARDS, 4)) == "insufficient accelkit.io/memory on 4 cards"
    assert native.format_misfit(Misfit(MisfitReason.WHOLE_CARDS)) == "insufficient free accelkit.io/cards"


def test_an_unknown_dialect_is_refused_with_those_there_are():
    with pytest.raises(ProfileError, match="choose one of aliyun, gas, gcushare, gcushare-2025, native"):
        load_dialect("klingon")


def test_a_dialect_named_twice_is_read_once_in_the_order_given():
    assert [each.name for each in load_dialects(["native", "gcushare", "native"])] == ["native", "gcushare"]


def test_profiles_are_known_by_their_vendor():
    profiles = load_profiles()
    assert [profiles[name].name for name in ("nvidia", "simulated")] == ["nvidia", "simulated"]


def test_nodes_with_cards_are_known_by_the_labels_of_all_profiles():
    assert {"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-simulated.present"} <= list_presence_labels()
