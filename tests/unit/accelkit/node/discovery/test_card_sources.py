import msgspec
import pytest

from accelkit.errors import DevicePluginError, PluginError, ProfileError
from accelkit.node.discovery import discover
from accelkit.node.discovery.card_sources import CardSource, list_card_source_names, load_card_source
from accelkit.vendors.fact_sources import Source
from accelkit.vendors.profiles import PciDiscovery, load_profiles

GIB = 2**30


ACME = f"""
from accelkit.node.discovery.card_sources import CardSource, Memory
ACCELKIT_INTERFACE = 1
class Acme(CardSource):
    def read_model(self, device): return f'Acme {{self.source.key}} at {{device.bdf}}'
    def read_memory(self, device): return Memory({3 * GIB}, self.source.name)
class Wrong(CardSource):
    def read_memory(self, device): return {3 * GIB}
class Failing(CardSource):
    def read_memory(self, device): return self.handle.ask()
class Foreign: pass
"""


@pytest.fixture
def distribution(site):
    """Install a distribution with a card source of this name, which knows a model and 3 GiB."""
    return lambda name, of="Acme": site.install(
        "acme", files={"acme_cards.py": ACME}, memory_sources=f"{name} = acme_cards:{of}"
    )


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
    assert named <= set(list_card_source_names())


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
    with pytest.raises(ProfileError, match="unknown card source acme in a profile; the sources are dmem, entry, facts"):
        discover(tmp_path, [with_sources(memory=(Source("acme"),))])


def test_another_distribution_replaces_no_source_of_ours(distribution):
    distribution("nvml")
    with pytest.raises(PluginError, match=r"name nvml is ambiguous: it is defined in accelkit \S+ and in acme 1\.0"):
        load_card_source("nvml")
    assert issubclass(load_card_source("dmem"), CardSource)


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        ("Wrong", "TypeError: its memory is 3221225472, not a Memory"),
        ("Failing", "AttributeError: .* no attribute 'handle'"),
    ],
)
def test_a_source_that_fails_leaves_the_card_unread_and_not_without_memory(host, tmp_path, distribution, of, problem):
    distribution("acme", of)
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    with pytest.raises(DevicePluginError, match=f"memory source acme of acme 1.0 failed on card {bdf}: {problem}"):
        discover(tmp_path, [with_sources(memory=(Source("acme"), Source("table")))])


def test_what_is_no_source_is_refused_with_its_distribution(distribution):
    distribution("acme", "Foreign")
    with pytest.raises(PluginError, match=r"memory source acme of acme 1\.0 is not a subclass of \S+CardSource"):
        load_card_source("acme")


def test_a_broken_source_harms_no_card_that_does_not_name_it(host, tmp_path, site):
    site.install("acme", files={"acme_cards.py": "import nothing_of_this_name\n"}, memory_sources="acme = acme_cards:A")
    host.add("nvidia", 1, "T4")
    assert discover(tmp_path, [with_sources()])
    with pytest.raises(PluginError, match=r"acme 1\.0 cannot be loaded: ModuleNotFoundError"):
        discover(tmp_path, [with_sources(memory=(Source("acme"),))])
