import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.doc_fragments.constructed import ModuleDocFragment as Constructed
from ansible_collections.accelkit.kubernetes.plugins.doc_fragments._connection import ModuleDocFragment as Connection
from ansible_collections.accelkit.kubernetes.plugins.inventory import accelerators

from accelkit.errors import ApiError
from accelkit.inspection.inspection import CardView, InspectedNode, Totals, assemble

GIB = 2**30
NAME = "accelkit.kubernetes.accelerators"


def card(name, vendor, model, used, **more):
    fixed = {"memory_bytes": 16 * GIB, "reserved_bytes": 0, "capacity_bytes": 16 * GIB, "used_compute": 0}
    state = {"whole": False, "health": "healthy", "known": True, "shares": [], **more}
    amounts = {"used_bytes": used * GIB, "free_bytes": (16 - used) * GIB}
    return CardView(id=name, vendor=vendor, model=model, **fixed, **amounts, **state)


def node(name, *cards, state="shared", address=""):
    sums = [sum(getattr(c, key) for c in cards) for key in ("capacity_bytes", "used_bytes", "free_bytes")]
    return InspectedNode(name, state, "", GIB, list(cards), [], Totals(len(cards), *sums), address)


NODES = [
    node("a", card("a-0", "nvidia", "NVIDIA H100 80GB", 4), card("a-1", "nvidia", "L4", 14), address="192.0.2.1"),
    node("b", card("b-0", "enflame", "S60", 0, health="unhealthy"), card("b-1", "enflame", "S60", 0, cordoned=True)),
    node("c", card("c-0", "nvidia", "", 16), card("gone", "", "", 3, known=False)),
    node("d", state="unknown"),
]


@pytest.fixture(autouse=True)
def cluster(monkeypatch):
    """The cluster, and the connections by which it was asked."""
    asked = []

    async def inspect(api):
        asked.append(api)
        return assemble(NODES, GIB)

    monkeypatch.setattr(accelerators, "inspect_cluster", inspect)
    return asked


@pytest.fixture
def parse(tmp_path):
    """Parse an inventory with these options; return its groups' hosts, and the hosts' variables."""

    def run(**options):
        path = tmp_path / "accelkit.accelerators.yml"
        given = {"host": "https://api.example", "api_key": "secret", **options}
        path.write_text(yaml.safe_dump({"plugin": NAME, **given}))
        plugin, inventory = accelerators.InventoryModule(), InventoryData()
        # As Ansible's loader does with what it loads.
        plugin._load_name = NAME
        plugin._redirected_names = [NAME]
        sources = (accelerators.DOCUMENTATION, Connection.DOCUMENTATION, Constructed.DOCUMENTATION)
        definitions = {name: each for text in sources for name, each in yaml.safe_load(text)["options"].items()}
        constants.config.initialize_plugin_configuration_definitions("inventory", NAME, definitions)
        assert plugin.verify_file(str(path))
        plugin.parse(inventory, DataLoader(), str(path))
        groups = {name: sorted(host.name for host in group.get_hosts()) for name, group in inventory.groups.items()}
        return groups, {name: host.vars for name, host in inventory.hosts.items()}

    return run


def test_nodes_are_grouped_by_vendor_model_and_sharing(parse):
    groups = parse()[0]
    assert {name: hosts for name, hosts in groups.items() if name not in ("all", "ungrouped")} == {
        "accelerators": ["a", "b", "c", "d"],
        "accelerators_vendor_nvidia": ["a", "c"],
        "accelerators_vendor_enflame": ["b"],
        "accelerators_model_nvidia_h100_80gb": ["a"],
        "accelerators_model_l4": ["a"],
        "accelerators_model_s60": ["b"],
        "accelerators_sharing_shared": ["a", "b", "c"],
        "accelerators_sharing_unknown": ["d"],
    }


def test_free_memory_group_contains_nodes_with_one_such_shareable_card(parse):
    groups, variables = parse(free_memory=["2GiB", "12GiB", "13GiB"])
    assert groups["accelerators_free_2gib"] == groups["accelerators_free_12gib"] == ["a"]
    assert "accelerators_free_13gib" not in groups
    assert {name: each["accelerators_largest_free_bytes"] for name, each in variables.items()} == {
        "a": 12 * GIB,
        "b": 0,
        "c": 0,
        "d": 0,
    }


def test_hosts_have_variables_for_amounts_and_cards(parse):
    variables = parse()[1]
    assert variables["a"]["ansible_host"] == "192.0.2.1"
    assert "ansible_host" not in variables["b"]
    assert variables["a"]["accelkit_node_name"] == "a"
    assert variables["a"]["accelerators_sharing"] == "shared"
    assert variables["a"]["accelerators_unit_bytes"] == GIB
    amounts = [variables["a"][f"accelerators_{name}_bytes"] for name in ("capacity", "used", "free")]
    assert amounts == [32 * GIB, 18 * GIB, 14 * GIB]
    assert [each["id"] for each in variables["a"]["accelerators_cards"]] == ["a-0", "a-1"]


def test_constructed_options_can_use_host_variables(parse):
    groups, variables = parse(
        compose={"gib": "accelerators_free_bytes // 1073741824"},
        groups={"big": "accelerators_cards | length > 1"},
        keyed_groups=[{"prefix": "sharing", "key": "accelerators_sharing"}],
    )
    assert variables["a"]["gib"] == 14
    assert groups["big"] == ["a", "b", "c"]
    assert groups["sharing_unknown"] == ["d"]


def test_api_server_is_read_from_options_or_environment(parse, cluster, monkeypatch):
    parse(request_timeout=7)
    assert cluster[0].server == "https://api.example"
    monkeypatch.setenv("K8S_AUTH_HOST", "https://other.example")
    parse(host=None)
    assert cluster[1].server == "https://other.example"


def test_files_with_other_names_are_ignored(tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    assert not accelerators.InventoryModule().verify_file(str(tmp_path / "hosts.yml"))


def test_inventory_errors_are_one_sentence(parse, monkeypatch):
    with pytest.raises(AnsibleParserError, match="'much' is not a valid size; write it as"):
        parse(free_memory=["much"])

    async def refuse(_api):
        raise ApiError("nodes is forbidden", status=403)

    monkeypatch.setattr(accelerators, "inspect_cluster", refuse)
    with pytest.raises(AnsibleParserError, match=r"^nodes is forbidden$"):
        parse()


def test_missing_package_error_contains_pip_command(parse, monkeypatch):
    monkeypatch.setattr(accelerators, "IMPORT_ERROR", ImportError("no msgspec"))
    with pytest.raises(AnsibleParserError, match="pip install 'accelkit=="):
        parse()
