"""The example of a plug-in, installed by pip: in discovery, and in the extender behind a real kube-scheduler."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from extender_process import GIB, Process, client_of, used_by_card, world_of
from ports import free_port
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
NAME = "orrery-scheduler"
MEMORY = "orrery.example/memory"
# The machine is busy; this is how long it may take until something is said to hang.
SECONDS = 120


def pip(*arguments, check=True):
    return subprocess.run([*PIP, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS, check=check)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The example as a wheel, built without an index by what is installed."""
    folder = tmp_path_factory.mktemp("example")
    # What builds it leaves its traces in the sources.
    source = shutil.copytree(REPOSITORY / "examples/plugin", folder / "plugin")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def example(wheel, tmp_path_factory):
    """A folder into which pip has installed it, without what it needs, which is here."""
    target = tmp_path_factory.mktemp("site")
    pip("install", "--no-index", "--no-deps", "--target", target, wheel)
    return target


@pytest.fixture
def installed(example, monkeypatch):
    """Processes find it beside accelkit."""
    monkeypatch.setenv("PYTHONPATH", str(example))


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Processes find a distribution of which nothing can be used, and which names things of ours."""
    info = tmp_path / "site" / "umbra-3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: umbra\nVersion: 3\n")
    (info / "entry_points.txt").write_text(
        "[accelkit.profiles]\numbra = umbra\nnvidia = umbra\n[accelkit.dialects]\numbra = umbra\ngas = umbra\n"
        "[accelkit.policies]\numbra = umbra\n[accelkit.memory_sources]\numbra = umbra\n"
    )
    (info.parent / "umbra.py").write_text("raise RuntimeError('the moon')\n")
    monkeypatch.setenv("PYTHONPATH", str(info.parent))


def accelkit(*arguments, code=0):
    command = [sys.executable, "-m", "accelkit", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_each_example_plugin_is_listed_without_problem(installed):
    found = json.loads(accelkit("plugins", "-o", "json").stdout)
    assert {(each["group"].removeprefix("accelkit."), each["name"]) for each in found} == {
        ("profiles", "orrery"),
        ("dialects", "orrery"),
        ("policies", "smallest-card"),
        ("memory_sources", "orrery-banks"),
    }
    assert {(each["distribution"], each["version"], each["problem"]) for each in found} == {
        ("orrery-accelkit", "1.0.0", "")
    }
    documented = (REPOSITORY / "docs/how-to/plugins.md").read_text()
    assert all(line.rstrip() in documented for line in accelkit("plugins").stdout.splitlines())


def write_card(root, bdf, device, banks):
    """Write what the kernel and the driver of Orrery show of a card."""
    folder = root / "sys/devices/pci0000:00" / bdf
    facts = {"vendor": "0xf00d", "device": f"0x{device}", "class": "0x120000", "serial": bdf[6], "numa_node": "0"}
    for name, value in {**facts, **{f"banks/{at}/bytes": size for at, size in enumerate(banks)}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n")
    (folder / "orrery/orr3").mkdir(parents=True)
    devices, driver = root / "sys/bus/pci/devices", root / "sys/bus/pci/drivers/orrery"
    for each in (devices, driver):
        each.mkdir(parents=True, exist_ok=True)
    (devices / bdf).symlink_to(folder)
    (folder / "driver").symlink_to(driver)


def test_plugin_profile_finds_cards_and_plugin_source_reads_memory(installed, tmp_path):
    write_card(tmp_path, "0000:01:00.0", "0016", [GIB, 2 * GIB])
    write_card(tmp_path, "0000:02:00.0", "0064", ["unreadable"])
    found = json.loads(accelkit("discover", "--host-root", tmp_path, "-o", "json").stdout)
    assert found["missing"] == []
    shown = [
        [each[key] for key in ("id", "vendor", "model", "memory_bytes", "memory_source")] for each in found["cards"]
    ]
    assert shown == [
        ["ORR-1", "orrery", "Orrery-16", 3 * GIB, "orrery-banks"],
        ["ORR-2", "orrery", "Orrery-64", 64 * GIB, "table"],
    ]


def test_plugin_names_are_unknown_without_plugin(tmp_path):
    write_card(tmp_path, "0000:01:00.0", "0016", [GIB])
    assert json.loads(accelkit("discover", "--host-root", tmp_path, "-o", "json").stdout)["cards"] == []
    assert "'smallest-card' is not one of" in accelkit("extender", "--policy", "smallest-card", code=2).stderr


def test_broken_plugin_is_reported_with_its_distribution(broken, tmp_path):
    found = json.loads(accelkit("plugins", "-o", "json", code=1).stdout)
    assert len(found) == 6
    assert all("umbra 3" in each["problem"] and each["next_step"] for each in found)
    done = accelkit("discover", "--host-root", tmp_path, "-o", "json")
    assert json.loads(done.stdout)["cards"] == []
    assert "the profile umbra of umbra 3 cannot be loaded: RuntimeError: the moon" in done.stderr
    for option, what in {"--policy": "policy umbra", "--dialect": "dialect umbra"}.items():
        said = accelkit(
            "extender", "--plain-http", "--listen", f"127.0.0.1:{free_port()}", option, "umbra", code=1
        ).stderr
        assert f"Error: the {what} of umbra 3 cannot be loaded: RuntimeError: the moon; install a release" in said


async def test_extender_serves_if_broken_plugin_is_not_used(broken, control_plane, tmp_path):
    with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig), "--dialect", "gcushare") as process:
        async with world_of(control_plane.kubeconfig) as world, client_of(process) as client:
            node = await world.node(1, 16)
            await client.shows(node, lambda view: view["state"] == "shared")


async def place_card(world, *cards):
    """Create a node with cards of so many GiB; return its name."""
    name = f"{world.prefix}-{'-'.join(map(str, cards))}"
    listed = tuple(Card(f"{name}-{at}", "orrery", "Orrery", size * GIB, index=at) for at, size in enumerate(cards))
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    text = encode_inventory(Inventory(GIB, listed))
    return await world.node(name=name, annotation=text, allocatable=amounts)


async def test_kube_scheduler_places_pods_by_plugin_policy_and_dialect(installed, control_plane, tmp_path):
    arguments = ["--policy", "smallest-card", "--dialect", "native", "--dialect", "orrery"]
    with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig), *arguments) as process:
        async with world_of(control_plane.kubeconfig) as world, client_of(process) as client:
            assert "using the policy smallest-card of orrery-accelkit 1.0.0" in process.log.read_text()
            large, small = await place_card(world, 64, 64), await place_card(world, 16, 8)
            for node in (large, small):
                await client.shows(node, lambda view: view["state"] == "shared")
            await bind_first(world, client, large)
            entry = {
                "urlPrefix": process.url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "weight": 10,
                "nodeCacheCapable": True,
                "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
            }
            kubeconfig = control_plane.paths.build_kubeconfig_path("kube-scheduler")
            with run_scheduler(build_configuration(NAME, kubeconfig, entry), tmp_path) as log:
                try:
                    await schedule(world, client, large, small)
                except AssertionError as exc:
                    raise AssertionError(log.read_text()[-4000:]) from exc


async def bind_first(world, client, node):
    """Put a pod on a node, so that binpack would take it before an empty one."""
    pod = await world.pod(spec=asking(8))
    assert await client.bind(pod, node) == ""


def asking(memory, *nodes):
    terms = [{"matchExpressions": [{"key": "accelkit-test", "operator": "In", "values": nodes}]}]
    limits = {MEMORY: str(memory)}
    return {
        "schedulerName": NAME if nodes else "none",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        **(
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
                }
            }
            if nodes
            else {}
        ),
    }


async def schedule(world, client, large, small):
    """Pods go to the smallest card that takes them, and those that no card takes read the dialect's sentence."""
    for memory, node, card in ((4, small, 1), (9, small, 0), (20, large, 0)):
        before = used_by_card(await client.node(node)).get(f"{node}-{card}", 0)
        pod = await world.pod(spec=asking(memory, large, small))

        async def bound(pod=pod):
            return (await world.read(pod))["spec"].get("nodeName")

        assert await until(bound) == node
        assert used_by_card(await client.node(node)).get(f"{node}-{card}", 0) == before + memory
    refused = await world.pod(spec=asking(65, large, small))

    async def told():
        conditions = (await world.read(refused))["status"].get("conditions", ())
        return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")

    assert "2 no Orrery has so much memory left" in await until(told)


async def test_agent_exits_with_error_if_profile_of_its_cards_is_broken(broken, control_plane, tmp_path):
    async with world_of(control_plane.kubeconfig) as world:
        cards = (Card("a", "umbra", "Umbra", 16 * GIB, index=0),)
        node = await world.node(annotation=encode_inventory(Inventory(GIB, cards)))
        arguments = ["--node-name", node, "--host-root", tmp_path, "--kubeconfig", control_plane.kubeconfig]
        said = accelkit("node-agent", *arguments, code=1).stderr
        assert "Error: the profile umbra of umbra 3 cannot be loaded" in said
        annotations = json.loads(await world.api.get(f"/api/v1/nodes/{node}"))["metadata"]["annotations"]
        assert '"umbra"' in annotations["accelkit.io/inventory"]


def test_image_installs_plugin_by_hash_without_changing_locked_versions(wheel):
    """By the very command of the Containerfile, in an environment that has what the image has."""
    text = re.sub(r"\\\n\s*", "", (REPOSITORY / "roles/images/files/Containerfile").read_text())
    (words,) = re.findall(r"\$pip (install [^;&]*--requirement /plugins\.lock)", text)
    lock = REPOSITORY / "roles/images/files/requirements.lock"
    digest = f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"

    def install(*lines):
        named = wheel.with_name("plugins.lock")
        named.write_text("\n".join(lines))
        places = {"/wheels": wheel.parent, "/requirements.lock": lock, "/plugins.lock": named}
        return pip(*(places.get(word, word) for word in words.split()), "--dry-run", "--ignore-installed", check=False)

    assert install(f"orrery-accelkit==1.0.0 {digest}").returncode == 0
    assert "pinned with ==" in install("orrery-accelkit").stderr
    assert "DO NOT MATCH" in install(f"orrery-accelkit==1.0.0 --hash=sha256:{'0' * 64}").stderr
    assert "conflict" in install(f"orrery-accelkit==1.0.0 {digest}", f"numpy==1.26.4 --hash=sha256:{'0' * 64}").stderr
