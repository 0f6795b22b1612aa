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


def test_profiles_name_only_existing_sources():
    discoveries = [profile.discovery for profile in load_profiles().values()]
    named = {
        source.name
        for each in discoveries
        if isinstance(each, PciDiscovery)
        for source in (*each.identity, *each.model, *each.minor, *each.render, *each.memory)
    }
    assert named
    assert named <= set(list_card_source_names())


def test_source_of_another_distribution_is_used_by_profiles(host, tmp_path, distribution):
    distribution("acme")
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    acme = (Source("acme", key="X1"),)
    (found,) = discover(tmp_path, [with_sources(model=acme, memory=acme)])
    assert found.card.model == f"Acme X1 at {bdf}"
    assert (found.card.memory_bytes, found.card.memory_source, found.card.estimated) == (3 * GIB, "acme", False)


def test_source_that_returns_no_value_is_skipped(host, tmp_path, distribution):
    distribution("acme")
    host.add("nvidia", 1, "T4")
    known = with_sources(
        minor=(Source("acme"), Source("facts", key="Device Minor")), memory=(Source("entry", path="*"),)
    )
    (found,) = discover(tmp_path, [known])
    assert (found.card.minor, found.card.memory_bytes, found.card.memory_source) == (0, None, "")


def test_unknown_source_is_refused_with_its_name(host, tmp_path):
    host.add("nvidia", 1, "T4")
    with pytest.raises(ProfileError, match="unknown card source acme in a profile; the sources are dmem, entry, facts"):
        discover(tmp_path, [with_sources(memory=(Source("acme"),))])


def test_source_with_name_of_builtin_source_is_ambiguous(distribution):
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
def test_failing_memory_source_is_an_error_and_not_unknown_memory(host, tmp_path, distribution, of, problem):
    distribution("acme", of)
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    with pytest.raises(DevicePluginError, match=f"memory source acme of acme 1.0 failed on card {bdf}: {problem}"):
        discover(tmp_path, [with_sources(memory=(Source("acme"), Source("table")))])


def test_class_that_is_not_a_source_is_refused_with_its_distribution(distribution):
    distribution("acme", "Foreign")
    with pytest.raises(PluginError, match=r"memory source acme of acme 1\.0 is not a subclass of \S+CardSource"):
        load_card_source("acme")


def test_broken_source_affects_only_profiles_with_its_name(host, tmp_path, site):
    site.install("acme", files={"acme_cards.py": "import nothing_of_this_name\n"}, memory_sources="acme = acme_cards:A")
    host.add("nvidia", 1, "T4")
    assert discover(tmp_path, [with_sources()])
    with pytest.raises(PluginError, match=r"acme 1\.0 cannot be loaded: ModuleNotFoundError"):
        discover(tmp_path, [with_sources(memory=(Source("acme"),))])
