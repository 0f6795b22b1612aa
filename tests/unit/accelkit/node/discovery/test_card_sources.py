from __future__ import annotations

import msgspec
import pytest

from accelkit.errors import ProfileError
from accelkit.node.discovery import discover
from accelkit.node.discovery.card_sources import load_card_source
from accelkit.vendors.fact_sources import Source
from accelkit.vendors.profiles import PciDiscovery, load_profiles

GIB = 2**30


@pytest.fixture(autouse=True)
def fresh_sources():
    yield
    load_card_source.cache_clear()


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Install a distribution with a card source of this name, which knows a model and 3 GiB."""

    def install(name):
        folder = tmp_path / "site-packages"
        (folder / "acme-1.0.dist-info").mkdir(parents=True)
        (folder / "acme-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (folder / "acme-1.0.dist-info/entry_points.txt").write_text(
            f"[accelkit.card_sources]\n{name} = acme_cards:Acme\n"
        )
        (folder / "acme_cards.py").write_text(
            "from accelkit.node.discovery.card_sources import CardSource, Memory\n"
            "class Acme(CardSource):\n"
            "    def read_model(self, device): return f'Acme {self.source.key} at {device.bdf}'\n"
            f"    def read_memory(self, device): return Memory({3 * GIB}, self.source.name)\n"
        )
        monkeypatch.syspath_prepend(folder)
        load_card_source.cache_clear()

    return install


def with_sources(**sources):
    profile = load_profiles()["nvidia"]
    return msgspec.structs.replace(profile, discovery=msgspec.structs.replace(profile.discovery, **sources))


def test_every_profile_names_sources_that_there_are():
    discoveries = [profile.discovery for profile in load_profiles().values()]
    named = {
        source.name
        for each in discoveries
        if isinstance(each, PciDiscovery)
        for source in (*each.identity, *each.model, *each.minor, *each.render, *each.memory)
    }
    assert named
    assert named <= load_card_source().keys()


def test_another_distribution_adds_a_source_that_profiles_then_name(host, tmp_path, distribution):
    distribution("acme")
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    acme = (Source("acme", key="X1"),)
    (found,) = discover(tmp_path, [with_sources(model=acme, memory=acme)])
    assert found.card.model == f"Acme X1 at {bdf}"
    assert (found.card.memory_bytes, found.card.memory_source, found.card.estimated) == (3 * GIB, "acme", False)


def test_a_source_is_passed_over_for_what_it_does_not_know(host, tmp_path, distribution):
    distribution("acme")
    host.add("nvidia", 1, "T4")
    known = with_sources(
        minor=(Source("acme"), Source("facts", key="Device Minor")), memory=(Source("entry", path="*"),)
    )
    (found,) = discover(tmp_path, [known])
    assert (found.card.minor, found.card.memory_bytes, found.card.memory_source) == (0, None, "")


def test_a_source_that_nobody_has_is_an_error_with_its_name(host, tmp_path):
    host.add("nvidia", 1, "T4")
    with pytest.raises(ProfileError, match="names the card source acme, which is none of dmem, entry, facts"):
        discover(tmp_path, [with_sources(memory=(Source("acme"),))])


def test_another_distribution_replaces_no_source_of_ours(distribution):
    distribution("nvml")
    with pytest.raises(ProfileError, match="names of accelkit's own: nvml"):
        load_card_source()
