import pytest
from device_names import unit

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card, Health
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.node.device_plugin.container_response import (
    build_container_response,
    build_dialect_environment,
    list_cdi_kinds,
)
from accelkit.node.device_plugin.device_list import build_device_list
from accelkit.node.discovery import FoundCard
from accelkit.node.enforcement.mps import MpsFolders
from accelkit.vendors.profiles import load_profiles

NVIDIA, SIMULATED = load_profiles()["nvidia"], load_profiles()["simulated"]
GIB = 2**30


def found(name, index=0, memory=16, *, minor=None, profile=SIMULATED, **more):
    card = Card(name, profile.name, "m", None if memory is None else memory * GIB, **more)
    return FoundCard(card, index, index if minor is None else minor, profile)


def answer(device_ids, cards, root, *, whole=False):
    return build_container_response(device_ids, cards, root, unit_bytes=None if whole else GIB)


def test_a_container_gets_variables_for_its_cards_and_memory(tmp_path):
    given = answer([unit("b", 0), unit("b", 7), unit("b", 3)], [found("a"), found("b", 1)], tmp_path)
    assert dict(given.envs) == {MEMORY_VARIABLE: str(3 * GIB), "ACCELKIT_VISIBLE_DEVICES": "b"}
    assert [(d.host_path, d.container_path, d.permissions) for d in given.devices] == [
        ("/dev/accelkit1", "/dev/accelkit1", "rw")
    ]


def test_the_memory_variable_of_whole_cards_is_their_whole_memory(tmp_path):
    given = answer(["b", "a"], [found("a", reserved_bytes=GIB), found("b", 1)], tmp_path, whole=True)
    assert given.envs[MEMORY_VARIABLE] == str(31 * GIB)
    assert given.envs["ACCELKIT_VISIBLE_DEVICES"] == "a,b"


def test_a_whole_card_of_unknown_memory_sets_no_memory_variable(tmp_path):
    given = answer(["a", "b"], [found("a", memory=None), found("b", 1)], tmp_path, whole=True)
    assert MEMORY_VARIABLE not in given.envs


def test_device_nodes_use_driver_number_and_omit_missing_optional_nodes(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    given = answer([unit("GPU-1", 0)], [found("GPU-1", 0, minor=6, profile=NVIDIA)], tmp_path)
    assert [device.host_path for device in given.devices] == ["/dev/nvidia6", "/dev/nvidiactl"]
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


def test_response_for_two_vendors_has_environment_of_both(tmp_path):
    cards = [found("GPU-1", profile=NVIDIA), found("s", 1)]
    given = answer(["s", "GPU-1"], cards, tmp_path, whole=True)
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert given.envs["ACCELKIT_VISIBLE_DEVICES"] == "s"


def test_device_ids_of_unknown_cards_are_refused_with_their_names(tmp_path):
    with pytest.raises(DevicePluginError, match=f"does not have: {', '.join(sorted([unit('x', 0), unit('y', 0)]))}"):
        answer([unit("y", 0), unit("a", 0), unit("x", 0)], [found("a")], tmp_path)


def test_device_list_has_every_unit_with_health_and_numa_node():
    cards = [
        Card("a", "v", "m", 2, numa=1),
        Card("b", "v", "m", 1, health=Health.UNHEALTHY),
        Card("c", "v", "m", 1, health=Health.UNKNOWN),
    ]
    devices = build_device_list(cards, whole=False, unit_bytes=1).devices
    assert [(device.ID, device.health, [node.ID for node in device.topology.nodes]) for device in devices] == [
        (unit("a", 0), "Healthy", [1]),
        (unit("a", 1), "Healthy", [1]),
        (unit("b", 0), "Unhealthy", []),
        (unit("c", 0), "Healthy", []),
    ]


def test_card_of_unknown_memory_is_listed_only_as_whole_card():
    card = Card("a", "v", "m", None)
    assert [device.ID for device in build_device_list([card], whole=True, unit_bytes=1).devices] == ["a"]
    assert list(build_device_list([card], whole=False, unit_bytes=1).devices) == []


def test_device_list_above_kubelet_message_limit_is_refused():
    with pytest.raises(DevicePluginError, match="the kubelet accepts only 4194304; choose a larger unit of memory"):
        build_device_list([Card("a", "v", "m", 200_000)], whole=False, unit_bytes=1)
    assert build_device_list([Card("a", "v", "m", 100_000)], whole=False, unit_bytes=1).ByteSize() < 4 << 20


def test_dialect_variables_are_set_only_for_one_card():
    patterns = {"IDX": "{card}", "POD": "{pod}", "CONTAINER": "{container}", "DEV": "{capacity}"}
    cards = [
        FoundCard(Card(name, "v", "m", 16, minor=minor), 0, minor, load_profiles()["simulated"])
        for name, minor in (("a", 3), ("b", 4))
    ]
    found = build_dialect_environment(patterns, [unit("a", 0), unit("a", 1)], cards, unit_bytes=2, pod_units=5)
    assert found == {"IDX": "3", "POD": "5", "CONTAINER": "2", "DEV": "8"}
    assert build_dialect_environment(patterns, [unit("a", 0), unit("b", 1)], cards, unit_bytes=2, pod_units=5) == {}


@pytest.mark.parametrize("state", [{"health": Health.UNHEALTHY}, {"cordoned": True}])
def test_unplaceable_card_keeps_devices_in_use_healthy(state):
    cards = [Card("a", "v", "m", 3, **state), Card("b", "v", "m", 1)]
    answer = build_device_list(cards, whole=False, unit_bytes=1, in_use={unit("a", 1)})
    assert {device.ID: device.health for device in answer.devices} == {
        unit("a", 0): "Unhealthy",
        unit("a", 1): "Healthy",
        unit("a", 2): "Unhealthy",
        unit("b", 0): "Healthy",
    }


def described(root, text, *, name="nvidia.yaml", folder="etc/cdi"):
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / name).write_text(text)


DESCRIBED = FoundCard(Card("GPU-1", "nvidia", "m", 16, minor=0), 0, 0, NVIDIA, uuid="GPU-1")
DEVICES = "{{cdiVersion: 0.5.0, kind: {kind}, devices: [{{name: {name}, containerEdits: {{}}}}]}}"


@pytest.mark.parametrize(("folder", "name"), [("etc/cdi", "GPU-1"), ("var/run/cdi", "'0'")])
def test_card_in_cdi_specification_is_passed_by_cdi_name(tmp_path, folder, name):
    described(tmp_path, DEVICES.format(kind="nvidia.com/gpu", name=name), folder=folder)
    answer = build_container_response([unit("GPU-1", 0)], [DESCRIBED], tmp_path, unit_bytes=1)
    assert [device.name for device in answer.cdi_devices] == [f"nvidia.com/gpu={name.strip(chr(39))}"]
    assert not answer.devices
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert list_cdi_kinds(tmp_path, [DESCRIBED]) == ("nvidia.com/gpu",)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", DEVICES.format(kind="nvidia.com/gpu", name="GPU-2"), DEVICES.format(kind="amd.com/gpu", name="GPU-1")],
)
def test_card_without_cdi_specification_is_passed_by_device_nodes(tmp_path, text):
    described(tmp_path, text)
    answer = build_container_response([unit("GPU-1", 0)], [DESCRIBED], tmp_path, unit_bytes=1)
    assert not answer.cdi_devices
    assert [device.host_path for device in answer.devices] == ["/dev/nvidia0"]
    assert list_cdi_kinds(tmp_path, [DESCRIBED]) == ()


def test_container_has_mps_limit_of_its_share_if_mps_runs(tmp_path):
    held, other = (
        FoundCard(Card(name, "nvidia", "m", 16 * GIB, bdf=bdf, enforcement="mps"), 0, 0, NVIDIA, uuid=name)
        for name, bdf in (("GPU-1", "0000:19:00.0"), ("GPU-2", "0000:1a:00.0"))
    )
    mps = MpsFolders("/run/mps", "/run/mps/shm")
    given = build_container_response(
        [unit("GPU-1", 0), unit("GPU-1", 1)], [other, held], tmp_path, unit_bytes=GIB, mps=mps
    )
    # With the limit of a card that the program cannot use, MPS would ignore all limits.
    assert given.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "GPU-1=2048M"
    assert given.envs["CUDA_MPS_PIPE_DIRECTORY"] == "/run/mps"
    mounts = {mount.container_path: mount.host_path for mount in given.mounts}
    assert mounts == {"/run/mps": "/run/mps", "/dev/shm": "/run/mps/shm"}
    whole = build_container_response(["GPU-1"], [held], tmp_path, unit_bytes=None)
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in whole.envs


def test_symbolic_link_as_mps_shared_memory_is_refused(tmp_path):
    pipes = tmp_path / "run/mps"
    pipes.mkdir(parents=True)
    (pipes / "shm").symlink_to("/etc")
    held = FoundCard(Card("GPU-1", "nvidia", "m", 16 * GIB, enforcement="mps"), 0, 0, NVIDIA, uuid="GPU-1")
    mps = MpsFolders("/run/mps", "/run/mps/shm")
    with pytest.raises(DevicePluginError, match="folder /run/mps/shm of MPS is, or is below, a symbolic link"):
        build_container_response([unit("GPU-1", 0)], [held], tmp_path, unit_bytes=GIB, mps=mps)


def test_container_with_card_without_mps_does_not_use_mps_daemon(tmp_path):
    # A client of the daemon can use only the cards of the daemon, and would lose the other card.
    cards = [
        FoundCard(Card(name, "nvidia", "m", 16 * GIB, bdf=f"0000:{name}:00.0", enforcement=enforcement), 0, 0, NVIDIA)
        for name, enforcement in (("19", "mps"), ("1a", ""))
    ]
    given = build_container_response([unit("19", 0), unit("1a", 0)], cards, tmp_path, unit_bytes=GIB)
    assert not [name for name in given.envs if name.startswith("CUDA_MPS")]
    assert not given.mounts
