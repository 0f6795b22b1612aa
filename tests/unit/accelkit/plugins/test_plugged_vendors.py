import json
import logging

import pytest

from accelkit.errors import PluginError, ProfileError
from accelkit.extender.foreign_inspect import make_foreign_inspects
from accelkit.install.guarded_keys import list_guarded_keys
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialects import (
    list_assignment_keys,
    list_dialect_names,
    list_extender_paths,
    load_dialect,
    load_usable_dialects,
)
from accelkit.vendors.profiles import is_plugin_resource, list_host_services, load_profiles, load_usable_profiles

MADE = "ACCELKIT_INTERFACE = 1\n"
PROFILE = {
    "presence_labels": ["acme.example/present"],
    "discovery": {"kind": "pci", "vendor": "f00d", "classes": ["1200"]},
    "environment": {},
    "card_nodes": [],
    "node_nodes": [],
    "host_services": ["acmed"],
    "runtime_variables": ["ACME_VISIBLE_DEVICES"],
    "labels": {"acme.example/count": "{count}"},
}
DIALECT = {
    "resources": {"memory": "acme.example/memory", "cards": "acme.example/cards"},
    "one_card_per_pod": False,
    "texts": {},
    "also_written": ["acme.example/assigned"],
    "extender_path": "/acme-scheduler",
}


@pytest.fixture
def acme(site):
    """Install a distribution of this name with a profile and a dialect of these names, from these documents."""

    def install(profile="acme", dialect="acme", *, of="acme", profiles=PROFILE, dialects=DIALECT):
        files = {f"{of}/{group}/__init__.py": MADE for group in ("profiles", "dialects")}
        for path, document in {f"profiles/{profile}": profiles, f"dialects/{dialect}": dialects}.items():
            files[f"{of}/{path}.yaml"] = document if isinstance(document, str) else json.dumps(document)
        names = {"profiles": f"{profile} = {of}.profiles", "dialects": f"{dialect} = {of}.dialects"}
        site.install(of, files={f"{of}/__init__.py": "", **files}, **names)

    return install


def test_plugin_profile_and_dialect_are_loaded_like_builtin_ones(acme):
    ours = list(load_profiles())
    acme()
    assert list(load_profiles()) == sorted([*ours, "acme"])
    assert load_profiles()["acme"].discovery.vendor == "f00d"
    assert "acmed" in list_host_services()
    assert list_dialect_names() == ["acme", "aliyun", "gas", "gcushare", "gcushare-2025", "kubegpu", "native"]
    assert list_dialect_names(advertised=True) == ["acme", "aliyun", "gcushare", "kubegpu", "native"]
    found = load_dialect("acme")
    assert (found.name, found.resources.memory) == ("acme", "acme.example/memory")
    assert found.format_misfit(Misfit(MisfitReason.MEMORY)) == "insufficient memory in one card"


def test_guarded_keys_include_keys_of_plugins(acme):
    before = list_guarded_keys()
    acme()
    keys = list_guarded_keys()
    assert set(keys.assignments) - set(before.assignments) == {"acme.example/assigned"}
    assert set(keys.runtime_variables) - set(before.runtime_variables) == {"ACME_VISIBLE_DEVICES"}
    assert set(keys.node_labels) - set(before.node_labels) == {"acme.example/count"}


def test_extender_path_of_plugin_dialect_is_listed_only_if_dialect_is_enabled(acme):
    acme()
    assert "/acme-scheduler" not in list_extender_paths()
    assert "/acme-scheduler" in list_extender_paths(["native", "acme"])


@pytest.mark.parametrize("made", ["PROFILE", "lambda: PROFILE", "lambda: __import__('json').dumps(PROFILE)"])
def test_profile_document_can_be_returned_by_callable(site, made):
    code = f"{MADE}PROFILE = {PROFILE!r}\nread = {made}\n"
    site.install("acme", files={"acme.py": code}, profiles="acme = acme:read")
    if made == "PROFILE":
        with pytest.raises(PluginError, match="TypeError: its entry point does not refer to a package or a callable"):
            load_profiles()
    else:
        assert load_profiles()["acme"].host_services == ("acmed",)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {**PROFILE, "environment": {"A": "{nothing}"}},
            "is invalid: '{nothing}' has the unknown field nothing; the fields are",
        ),
        ({**PROFILE, "colour": "red"}, "is invalid: Object contains unknown field `colour`"),
        ("a: [", "cannot be read: ParserError"),
        ("just words", "is invalid: Expected `object`, got `str`"),
        ("", "is invalid: Expected `object`, got `null`"),
        (
            {**PROFILE, "discovery": {"kind": "pci", "vendor": "10de", "classes": ["0302", "1200"]}},
            "matches PCI devices",
        ),
    ],
)
def test_invalid_document_is_reported_with_its_distribution(acme, document, problem):
    acme(profiles=document)
    with pytest.raises(PluginError) as raised:
        load_profiles()
    assert raised.value.message.startswith(f"the profile acme of acme 1.0 {problem}")


def test_overlapping_pci_devices_are_reported_with_both_profiles(acme):
    acme(profiles={**PROFILE, "discovery": {"kind": "pci", "vendor": "10de", "classes": ["0302", "1200"]}})
    with pytest.raises(PluginError, match=r"acme 1\.0 matches PCI devices \(10de:0302\), as the profile nvidia does"):
        load_profiles()


def test_missing_file_is_reported_with_its_distribution(site):
    site.install("acme", files={"acme/__init__.py": MADE}, dialects="acme = acme")
    with pytest.raises(PluginError, match=r"dialect acme of acme 1\.0 cannot be read: FileNotFoundError"):
        load_dialect("acme")


def test_broken_profile_is_skipped_and_logged_once(acme, caplog):
    acme(profiles="a: [")
    with pytest.raises(PluginError):
        load_profiles()
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            known = load_usable_profiles()
    assert "nvidia" in known.profiles
    assert "acme" not in known.profiles
    assert [each.getMessage().partition(" cannot")[0] for each in caplog.records] == ["the profile acme of acme 1.0"]


def test_device_resources_are_recognized_despite_broken_profile(acme):
    acme(profiles="discovery: [")
    assert list_device_resources(load_dialect("native")).memory
    assert is_plugin_resource("nvidia.com/gpu")


def test_broken_profile_is_an_error_if_its_vendor_is_required(acme):
    acme(profiles="a: [")
    known = load_usable_profiles()
    known.require(["nvidia", "somebody"])
    with pytest.raises(PluginError, match=r"profile acme of acme 1\.0 cannot be read"):
        known.require(["nvidia", "acme"])


def test_profile_with_builtin_name_is_ignored_and_logged(acme, caplog):
    acme(profile="nvidia")
    with pytest.raises(PluginError, match=r"name nvidia is ambiguous: it is defined in accelkit \S+ and in acme 1\.0"):
        load_profiles()
    with caplog.at_level(logging.ERROR):
        known = load_usable_profiles()
    assert known.profiles["nvidia"].discovery.vendor == "10de"
    assert "profile name nvidia is ambiguous: it is defined in accelkit" in caplog.text
    known.require(["nvidia"])


def test_dialect_with_builtin_name_is_refused_with_both_distributions(acme):
    acme(dialect="gas")
    with pytest.raises(PluginError, match=r"name gas is ambiguous: .* in accelkit \S+ and in acme 1\.0"):
        load_dialect("gas")
    assert load_dialect("native").resources.memory == "accelkit.io/memory"
    # Who does not name it has ours.
    assert list_extender_paths(["native"]) == list_extender_paths()
    assert "/gpushare-scheduler" in make_foreign_inspects(["native"], lambda _: None)
    (gas,) = (each for each in load_usable_dialects() if each.name == "gas")
    assert "gpu.intel.com/i915" in gas.resources.counts


def test_broken_dialect_fails_only_when_named(acme, caplog):
    acme(dialects={"resources": {"memory": 3}})
    assert "acme" in list_dialect_names()
    assert load_dialect("native").name == "native"
    assert list_extender_paths(["native"])
    with caplog.at_level(logging.ERROR):
        assert "acme" not in [each.name for each in load_usable_dialects()]
    assert "dialect acme of acme 1.0 is invalid" in caplog.text
    with pytest.raises(PluginError, match=r"dialect acme of acme 1\.0 is invalid: Expected `str`"):
        load_dialect("acme")
    with pytest.raises(PluginError, match="dialect acme"):
        list_assignment_keys()


def test_unknown_dialect_error_suggests_installing_distribution(site):
    with pytest.raises(ProfileError, match=r"unknown dialect 'acme'; choose one of .*, or install the distribution"):
        load_dialect("acme")
