import msgspec
import pytest

from accelkit.errors import ProfileError
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.vendors import dialects
from accelkit.vendors.dialect import Dialect, Logs, ResourceNames, UnhealthyCards
from accelkit.vendors.dialects import (
    list_dialect_names,
    list_extender_paths,
    load_dialect,
    load_dialects,
)
from accelkit.vendors.inspect_formats import InspectFormat


@pytest.mark.parametrize("name", list_dialect_names())
@pytest.mark.parametrize("reason", MisfitReason)
def test_each_dialect_has_message_for_each_misfit_reason(name, reason):
    text = load_dialect(name).format_misfit(Misfit(reason, 3, "this {odd} thing"))
    assert text
    assert "{cards}" not in text


def test_unknown_dialect_is_rejected_with_choices():
    with pytest.raises(ProfileError, match="choose one of aliyun, gas, gcushare, gcushare-2025, kubegpu, native"):
        load_dialect("klingon")


def test_load_dialects_removes_duplicates_and_preserves_order():
    assert [each.name for each in load_dialects(["native", "gcushare", "native"])] == ["native", "gcushare"]


def test_minimal_dialect_has_default_values():
    dialect = msgspec.convert({"resources": {}, "one_card_per_pod": False, "texts": {}}, Dialect)
    assert dialect == Dialect(
        resources=ResourceNames(memory="", cards="", counts=(), bytes="", compute="", slices="", per_card=0),
        one_card_per_pod=False,
        texts={},
        advertised=True,
        node_label="",
        logs=Logs("/var/log/accelkit", "accelkit-extender", "accelkit-node-agent"),
        annotations=None,
        environment={},
        pod_rules=None,
        disabled_cards="",
        unhealthy_cards=None,
        extender_path="",
        inspect=None,
        name="",
    )
    assert dialect.resources.requestable == ()


@pytest.mark.parametrize(
    ("name", "requestable"),
    [
        ("native", ("accelkit.io/memory", "accelkit.io/cards")),
        ("gas", ("gpu.intel.com/i915", "gpu.intel.com/xe")),
        ("gcushare-2025", ("enflame.com/shared-gcu",)),
    ],
)
def test_requestable_resources_of_dialect_request_cards(name, requestable):
    assert load_dialect(name).resources.requestable == requestable


@pytest.mark.parametrize(
    ("config_map", "node"),
    [("bad-n1-cards", "n1"), ("bad--cards", ""), ("bad-n1", None), ("n1-cards", None), ("other", None)],
)
def test_node_name_is_read_from_name_of_unhealthy_cards_config_map(config_map, node):
    assert UnhealthyCards("bad-{node}-cards", "gpus").find_node(config_map) == node


def test_misfit_message_contains_number_of_cards_and_detail():
    native = load_dialect("native")
    assert native.format_misfit(Misfit(MisfitReason.COMPUTE, 3)) == "insufficient compute on 3 cards"
    assert native.format_misfit(Misfit(MisfitReason.COMPUTE, 1)) == "insufficient compute on 1 card"
    assert native.format_misfit(Misfit(MisfitReason.CARD_MEMORY, 1, "9 GiB")) == "fewer than 1 card of 9 GiB"
    assert native.format_misfit(Misfit(MisfitReason.MODEL, detail="H100")) == "no card of model H100"


def test_misfit_message_shortens_text_of_user():
    sentence = load_dialect("native").format_misfit(Misfit(MisfitReason.MODEL, detail="\x1b[2J" + "x" * 2**18))
    assert len(sentence) < 300
    assert sentence.isprintable()


def test_dialect_names_are_sorted_and_filtered_by_advertised():
    assert list_dialect_names() == ["aliyun", "gas", "gcushare", "gcushare-2025", "kubegpu", "native"]
    assert list_dialect_names(advertised=True) == ["aliyun", "gcushare", "kubegpu", "native"]


def test_invalid_dialect_file_is_rejected_with_dialect_name(tmp_path, monkeypatch):
    (tmp_path / "odd.yaml").write_text("resources: {}\none_card_per_pod: perhaps\n")
    (tmp_path / "README").write_text("no dialect")
    monkeypatch.setattr(dialects, "_folder", lambda: tmp_path)
    assert list_dialect_names() == ["odd"]
    with pytest.raises(ProfileError, match="dialect odd is invalid: Expected `bool`"):
        load_dialect("odd")


def test_extender_paths_are_listed_without_duplicates():
    assert list_extender_paths() == ("/gcushare-scheduler", "/gpushare-scheduler", "/scheduler")


def test_minimal_inspect_format_has_default_values():
    assert InspectFormat("GPU", "devs") == InspectFormat(
        amount="GPU",
        devices="devs",
        available=False,
        by_number=False,
        device={},
        uid=False,
        created="",
        bare=False,
        unknown_node="node {node} is unknown or does not share cards",
    )
