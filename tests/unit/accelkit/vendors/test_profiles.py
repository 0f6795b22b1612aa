import msgspec
import pytest

from accelkit.errors import ProfileError
from accelkit.vendors.fact_sources import Source
from accelkit.vendors.profiles import (
    FileDiscovery,
    Model,
    PciDiscovery,
    Profile,
    list_host_services,
    list_presence_labels,
    load_profiles,
    parse_profile,
)

LEAST = {
    "presence_labels": ["v.example/present"],
    "discovery": {"kind": "file", "path": "cards.json"},
    "environment": {},
    "card_nodes": [],
    "node_nodes": [],
}


def parse(**changes):
    return parse_profile("v", msgspec.json.encode({**LEAST, **changes}).decode())


def discovery(**changes):
    return parse(discovery={"kind": "pci", "vendor": "10de", "classes": ["0302"], **changes}).discovery


def test_what_a_profile_does_not_say_it_does_not_have():
    assert parse() == Profile(
        presence_labels=("v.example/present",),
        discovery=FileDiscovery("cards.json"),
        environment={},
        card_nodes=(),
        node_nodes=(),
        nodes_file=None,
        cdi=None,
        labels={},
        enforcement=("dmem",),
        host_services=(),
        name="v",
    )


def test_a_profile_that_is_not_read_from_a_file_has_no_name():
    assert Profile((), FileDiscovery("x"), {}, (), ()).name == ""


def test_cards_on_pci_need_no_more_than_vendor_and_classes():
    assert discovery() == PciDiscovery(
        vendor="10de",
        classes=("0302",),
        drivers=(),
        facts=None,
        identity=(),
        model=(),
        minor=(),
        render=(),
        memory=(),
        models={},
        reserved_mib=0,
    )


def test_a_source_of_a_fact_is_named_by_from():
    (source,) = discovery(identity=[{"from": "file"}]).identity
    assert source == Source(name="file", key="", path="", pattern="{}")
    (source,) = discovery(memory=[{"from": "facts", "key": "k", "path": "p", "pattern": "GPU-{}"}]).memory
    assert source == Source("facts", "k", "p", "GPU-{}")


def test_a_model_may_come_in_several_sizes():
    models = discovery(models={"20b0": {"name": "A100"}, "2331": {"name": "H100", "memory_mib": 81559}}).models
    assert models == {"20b0": Model("A100", None), "2331": Model("H100", 81559)}


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ("environment", ["ids", "uuids", "indices", "minors", "ordinals"]),
        ("labels", ["count", "model", "memory_mib", "memory_gib", "numbers", "names", "numa"]),
        ("card_nodes", ["index", "minor", "render"]),
    ],
)
def test_patterns_may_name_what_is_known_and_nothing_else(where, fields):
    def build(pattern):
        return [pattern] if where == "card_nodes" else {"key": pattern}

    pattern = "plain " + "".join(f"{{{field}}}" for field in fields)
    assert msgspec.to_builtins(getattr(parse(**{where: build(pattern)}), where)) in (build(pattern), (pattern,))
    for unknown in ("bdf", ""):
        with pytest.raises(
            ProfileError,
            match=f"profile v is invalid: .* has the unknown field {unknown}; the fields are {min(fields)}",
        ):
            parse(**{where: build(f"{pattern}{{{unknown}}}")})


@pytest.mark.parametrize(
    "changes",
    [
        *({"colour": "red"}, {"enforcement": ["luck"]}, {"discovery": {"kind": "usb"}}, {"presence_labels": None}),
        {"container_limits": ["a/{pod}"]},
    ],
    ids=str,
)
def test_a_profile_that_makes_no_sense_is_refused_by_name(changes):
    with pytest.raises(ProfileError, match="profile v is invalid"):
        parse(**changes)


def test_there_is_a_profile_for_every_vendor_in_the_order_of_their_names():
    assert list(load_profiles()) == [
        *("amd", "enflame", "gaudi", "huawei", "hygon", "intel", "metax", "moorethreads", "nvidia", "simulated"),
        "xilinx",
    ]


def test_services_of_all_drivers_are_known():
    assert "nvidia-persistenced" in list_host_services()
    assert list_host_services() == {name for each in load_profiles().values() for name in each.host_services}


def test_labels_of_all_vendors_tell_nodes_with_cards():
    assert list_presence_labels() == {label for each in load_profiles().values() for label in each.presence_labels}


def test_profiles_are_written_in_yaml():
    assert parse_profile(
        "v",
        "presence_labels: [a]\ndiscovery: {kind: file, path: x}\nenvironment: {A: '{ids}'}\n"
        "card_nodes: []\nnode_nodes: [/dev/x]\n",
    ).node_nodes == ("/dev/x",)
