import logging
import sys

import pytest

from accelkit.errors import PluginError
from accelkit.plugins.catalogue import describe_plugins, find_plugin, list_plugin_names, list_plugins
from accelkit.plugins.interface import DIALECTS, INTERFACE, KINDS, MEMORY_SOURCES, POLICIES, PROFILES

MADE = f"ACCELKIT_INTERFACE = {INTERFACE}\n"


def load(name="tight", group=POLICIES):
    return find_plugin(group, name, ()).load()


def test_the_groups_are_those_that_are_documented():
    assert list(KINDS) == [PROFILES, DIALECTS, POLICIES, MEMORY_SOURCES]
    assert list(KINDS) == [f"accelkit.{name}" for name in ("profiles", "dialects", "policies", "memory_sources")]


def test_without_other_distributions_there_are_no_plug_ins(site):
    assert list_plugins() == ()
    assert find_plugin(POLICIES, "tight", ()) is None


def test_a_plug_in_is_found_without_running_any_of_it(site):
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


def test_a_module_or_something_in_one_is_loaded(site):
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
def test_what_cannot_be_loaded_is_told_with_its_distribution_and_what_to_do(site, code, reference, problem):
    site.install("acme", files={"acme.py": code}, policies=f"tight = {reference}")
    with pytest.raises(PluginError) as raised:
        load()
    assert raised.value.message.startswith(f"the policy tight of acme 1.0 {problem}")
    assert raised.value.next_step.startswith("install a release of acme that supports interface 1 of accelkit")


@pytest.mark.parametrize("name", ["Tight", "-tight", "tight!", "a" * 64])
def test_a_name_that_nobody_could_write_is_refused(site, name):
    site.install("acme", files={"acme.py": MADE}, policies=f"{name} = acme")
    with pytest.raises(PluginError, match="has an invalid name: use lower-case letters"):
        load(name)


def test_a_name_of_accelkits_own_is_refused_with_both_distributions(site):
    site.install("acme", policies="tight = acme")
    with pytest.raises(
        PluginError, match=r"policy name tight is ambiguous: .* accelkit \S+ and in acme 1\.0; uninstall acme$"
    ):
        find_plugin(POLICIES, "tight", {"tight"})
    assert find_plugin(POLICIES, "binpack", {"binpack"}) is None
    assert find_plugin(DIALECTS, "tight", {"tight"}) is None


def test_a_name_that_two_have_is_refused_with_both_and_loads_neither(site):
    site.install("acme", files={"acme.py": "raise SystemExit"}, policies="tight = acme")
    site.install("umbra", "2", policies="tight = umbra\nloose = umbra")
    with pytest.raises(PluginError, match=r"tight is ambiguous: .* acme 1\.0 and in umbra 2; uninstall acme or umbra$"):
        find_plugin(POLICIES, "tight", ())
    assert find_plugin(POLICIES, "loose", ()).distribution == "umbra"


def test_of_two_copies_of_a_distribution_the_first_on_the_path_counts(site, tmp_path, monkeypatch):
    site.install("Acme.X", "1", policies="tight = acme")
    first = type(site)(tmp_path)
    first.install("acme-x", "2", policies="tight = acme")
    monkeypatch.syspath_prepend(tmp_path)
    first.install("acme-x", "2", policies="tight = acme")
    assert find_plugin(POLICIES, "tight", ()).version == "2"


@pytest.mark.parametrize("text", ["[accelkit.policies]\nno equals sign\n", "\x00[", "[accelkit.policies]\n= x\n"])
def test_a_damaged_distribution_hides_no_other(site, caplog, text):
    site.install("acme", files={"broken-1.dist-info/entry_points.txt": text}, policies="tight = acme")
    with caplog.at_level(logging.WARNING):
        assert find_plugin(POLICIES, "tight", ()) is not None
    assert all("broken-1.dist-info" in each.getMessage() for each in caplog.records)


def test_what_a_service_uses_of_others_is_named_with_its_distribution(site):
    site.install("acme", policies="tight = acme\nloose = acme", dialects="native-2 = acme")
    used = {POLICIES: ["tight"], DIALECTS: ("native",), PROFILES: {}}
    assert describe_plugins(used) == ["policy tight of acme 1.0"]
