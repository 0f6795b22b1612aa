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


def test_minimal_profile_has_default_values():
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


def test_profile_created_in_code_has_empty_name():
    assert Profile((), FileDiscovery("x"), {}, (), ()).name == ""


def test_pci_discovery_requires_only_vendor_and_classes():
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


def test_from_key_names_source_of_fact():
    (source,) = discovery(identity=[{"from": "file"}]).identity
    assert source == Source(name="file", key="", path="", pattern="{}")
    (source,) = discovery(memory=[{"from": "facts", "key": "k", "path": "p", "pattern": "GPU-{}"}]).memory
    assert source == Source("facts", "k", "p", "GPU-{}")


def test_model_may_omit_memory_size():
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
def test_pattern_with_unknown_field_is_rejected(where, fields):
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
def test_invalid_profile_is_rejected_with_its_name(changes):
    with pytest.raises(ProfileError, match="profile v is invalid"):
        parse(**changes)


def test_profiles_of_all_vendors_are_loaded_in_order_of_name():
    assert list(load_profiles()) == [
        *("amd", "enflame", "gaudi", "huawei", "hygon", "intel", "metax", "moorethreads", "nvidia", "simulated"),
        "xilinx",
    ]


def test_host_services_of_all_profiles_are_listed():
    assert "nvidia-persistenced" in list_host_services()
    assert list_host_services() == {name for each in load_profiles().values() for name in each.host_services}


def test_presence_labels_of_all_profiles_are_listed():
    assert list_presence_labels() == {label for each in load_profiles().values() for label in each.presence_labels}


def test_profile_is_read_from_yaml():
    assert parse_profile(
        "v",
        "presence_labels: [a]\ndiscovery: {kind: file, path: x}\nenvironment: {A: '{ids}'}\n"
        "card_nodes: []\nnode_nodes: [/dev/x]\n",
    ).node_nodes == ("/dev/x",)
