import logging
import sys

import pytest

from accelkit.errors import PluginError
from accelkit.plugins.catalogue import describe_plugins, find_plugin, list_plugin_names, list_plugins
from accelkit.plugins.interface import DIALECTS, INTERFACE, KINDS, MEMORY_SOURCES, POLICIES, PROFILES

MADE = f"ACCELKIT_INTERFACE = {INTERFACE}\n"


def load(name="tight", group=POLICIES):
    return find_plugin(group, name, ()).load()


def test_plugin_groups_match_documented_groups():
    assert list(KINDS) == [PROFILES, DIALECTS, POLICIES, MEMORY_SOURCES]
    assert list(KINDS) == [f"accelkit.{name}" for name in ("profiles", "dialects", "policies", "memory_sources")]


def test_no_plugins_are_listed_without_other_distributions(site):
    assert list_plugins() == ()
    assert find_plugin(POLICIES, "tight", ()) is None


def test_plugins_are_listed_without_importing_them(site):
    site.install(
        "acme-x", "2.1", files={"acme.py": "raise SystemExit"}, policies="tight = acme:tight", dialects="acme = acme"
    )
    site.install("other", "3", policies="loose = other")
    assert [(each.group, each.name, each.origin) for each in list_plugins()] == [
        (DIALECTS, "acme", "acme-x 2.1"),
        (POLICIES, "loose", "other 3"),
        (POLICIES, "tight", "acme-x 2.1"),
    ]
    assert list_plugin_names(POLICIES) == ["loose", "tight"]
    assert "acme" not in sys.modules


def test_plugin_can_be_module_or_attribute(site):
    site.install("acme", files={"acme.py": f"{MADE}class A:\n    b = 7\n"}, policies="whole = acme\ntight = acme:A.b")
    assert load() == 7
    assert load("whole") is sys.modules["acme"]


@pytest.mark.parametrize(
    ("code", "reference", "problem"),
    [
        ("", "acme:tight", "does not declare its interface; acme must set ACCELKIT_INTERFACE = 1"),
        ("ACCELKIT_INTERFACE = 2", "acme:tight", "was written for interface 2; acme must set ACCELKIT_INTERFACE = 1"),
        ("ACCELKIT_INTERFACE = '1'", "acme:tight", "was written for interface '1'; acme must set"),
        (MADE, "acme:tight", "cannot be loaded: AttributeError: module 'acme' has no attribute 'tight'"),
        (MADE, "acme.tight", "cannot be loaded: ModuleNotFoundError"),
        ("import sys; sys.exit('no')", "acme:tight", "cannot be loaded: SystemExit: no"),
        ("1 / 0", "acme:tight", "cannot be loaded: ZeroDivisionError"),
        ("def", "acme:tight", "cannot be loaded: SyntaxError"),
        (MADE, "../acme", "refers to '../acme', which is not a module or an attribute of a module"),
    ],
)
def test_load_error_names_distribution_and_next_step(site, code, reference, problem):
    site.install("acme", files={"acme.py": code}, policies=f"tight = {reference}")
    with pytest.raises(PluginError) as raised:
        load()
    assert raised.value.message.startswith(f"the policy tight of acme 1.0 {problem}")
    assert raised.value.next_step.startswith("install a release of acme that supports interface 1 of accelkit")


@pytest.mark.parametrize("name", ["Tight", "-tight", "tight!", "a" * 64])
def test_invalid_plugin_name_is_refused(site, name):
    site.install("acme", files={"acme.py": MADE}, policies=f"{name} = acme")
    with pytest.raises(PluginError, match="has an invalid name: use lower-case letters"):
        load(name)


def test_plugin_name_reserved_by_accelkit_is_refused(site):
    site.install("acme", policies="tight = acme")
    with pytest.raises(
        PluginError, match=r"policy name tight is ambiguous: .* accelkit \S+ and in acme 1\.0; uninstall acme$"
    ):
        find_plugin(POLICIES, "tight", {"tight"})
    assert find_plugin(POLICIES, "binpack", {"binpack"}) is None
    assert find_plugin(DIALECTS, "tight", {"tight"}) is None


def test_plugin_name_defined_twice_is_refused_without_loading(site):
    site.install("acme", files={"acme.py": "raise SystemExit"}, policies="tight = acme")
    site.install("umbra", "2", policies="tight = umbra\nloose = umbra")
    with pytest.raises(PluginError, match=r"tight is ambiguous: .* acme 1\.0 and in umbra 2; uninstall acme or umbra$"):
        find_plugin(POLICIES, "tight", ())
    assert find_plugin(POLICIES, "loose", ()).distribution == "umbra"


def test_first_copy_of_distribution_on_path_is_used(site, tmp_path, monkeypatch):
    site.install("Acme.X", "1", policies="tight = acme")
    first = type(site)(tmp_path)
    first.install("acme-x", "2", policies="tight = acme")
    monkeypatch.syspath_prepend(tmp_path)
    first.install("acme-x", "2", policies="tight = acme")
    assert find_plugin(POLICIES, "tight", ()).version == "2"


@pytest.mark.parametrize("text", ["[accelkit.policies]\nno equals sign\n", "\x00[", "[accelkit.policies]\n= x\n"])
def test_damaged_distribution_does_not_hide_other_plugins(site, caplog, text):
    site.install("acme", files={"broken-1.dist-info/entry_points.txt": text}, policies="tight = acme")
    with caplog.at_level(logging.WARNING):
        assert find_plugin(POLICIES, "tight", ()) is not None
    assert all("broken-1.dist-info" in each.getMessage() for each in caplog.records)


def test_plugins_in_use_are_described_with_their_distribution(site):
    site.install("acme", policies="tight = acme\nloose = acme", dialects="native-2 = acme")
    used = {POLICIES: ["tight"], DIALECTS: ("native",), PROFILES: {}}
    assert describe_plugins(used) == ["policy tight of acme 1.0"]
