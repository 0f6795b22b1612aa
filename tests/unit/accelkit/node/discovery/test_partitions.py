"""Parts of a card as cards of their own: instances of MIG, over files as the driver writes and a stand-in of NVML."""

import pytest

from accelkit.errors import DevicePluginError
from accelkit.node.device_plugin.container_response import (
    build_container_response,
    find_cards_by_address,
    list_card_nodes,
    list_own_nodes,
)
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import Nvml, compute_topology

GIB = 2**30
PARENT = "NVIDIA A100-SXM4-40GB"
SMALL, LARGE = "MIG-11111111-2222-3333-4444-555555555555", "MIG-66666666-2222-3333-4444-555555555555"


def instance(uuid, profile, gi, ci=0, **facts):
    return {"uuid": uuid, "name": f"{PARENT} MIG {profile}", "gi": gi, "ci": ci, "total": 5 * GIB, **facts}


def one_unit(card, found):
    return [DeviceIds(each.card.id for each in found).build_memory_id(card, 0)]


@pytest.fixture
def parted(host, fake_nvml):
    """A host with a card in MIG mode, and one in one piece; returns its library."""
    whole, card = host.add("nvidia", 2, "H200").cards
    for gi, minors in {1: (21, 22), 2: (30, 31)}.items():
        folder = f"proc/driver/nvidia/capabilities/gpu1/mig/gi{gi}"
        host.write(f"{folder}/access", f"DeviceFileMinor: {minors[0]}\nDeviceFileMode: 444\nDeviceFileModify: 1")
        host.write(f"{folder}/ci0/access", f"DeviceFileMinor: {minors[1]}\nDeviceFileMode: 444")

    def make(*instances, most=7, mig=1, **facts):
        of_card = {"uuid": "GPU-parent", "name": PARENT, "minor": 1, "total": 40 * GIB, "mig": mig, **facts}
        if most is not None:
            # A library knows instances by numbers with gaps.
            of_card |= {"most": most, "instances": dict(zip((0, 2, 4), instances, strict=False))}
        other = {"uuid": "GPU-whole", "name": PARENT, "minor": 0, "total": 40 * GIB, "mig": 0}
        return Nvml(fake_nvml({whole.bdf: other, card.bdf: of_card}))

    return make


def test_mig_instances_are_cards_and_their_parent_is_not(parted, find):
    found = find(parted(instance(SMALL, "1g.5gb", 1), instance(LARGE, "3g.20gb", 2, total=20 * GIB)))
    assert [each.card.id for each in found] == ["GPU-whole", SMALL, LARGE]
    _, small, large = found
    assert (small.card.model, small.card.memory_bytes) == (f"{PARENT} MIG 1g.5gb", 5 * GIB)
    assert (large.card.model, large.card.memory_bytes) == (f"{PARENT} MIG 3g.20gb", 20 * GIB)
    assert {each.card.memory_source for each in found} == {"nvml"}
    assert [each.index for each in found] == [0, 1, 2]
    assert small.card.bdf == large.card.bdf != found[0].card.bdf
    # The driver's number is the whole card's, and names none of its parts.
    assert (small.card.minor, small.card.number, small.minor) == (None, 1, 1)
    assert (small.part_of, found[0].part_of) == ("GPU-parent", None)


def test_container_response_has_nodes_of_card_and_its_instance(parted, find, host):
    found = find(parted(instance(SMALL, "1g.5gb", 1), instance(LARGE, "3g.20gb", 2)))
    assert list_card_nodes(found[1]) == [
        "/dev/nvidia1",
        "/dev/nvidia-caps/nvidia-cap21",
        "/dev/nvidia-caps/nvidia-cap22",
    ]
    assert list_own_nodes(found[1]) == ["/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"]
    assert list_own_nodes(found[0]) == ["/dev/nvidia0"]
    answer = build_container_response(one_unit(SMALL, found), found, host.root, unit_bytes=GIB)
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == SMALL
    paths = {each.host_path for each in answer.devices}
    assert paths >= {"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap21"}
    assert not paths & {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30"}


def test_instance_is_not_passed_by_cdi_name_of_its_card(parted, find, host):
    host.write("etc/cdi/nvidia.json", '{"kind": "nvidia.com/gpu", "devices": [{"name": "1"}, {"name": "GPU-parent"}]}')
    found = find(parted(instance(SMALL, "1g.5gb", 1)))
    answer = build_container_response(one_unit(SMALL, found), found, host.root, unit_bytes=GIB)
    assert list(answer.cdi_devices) == []


def test_instance_with_unknown_device_nodes_is_refused(parted, find):
    (_, found) = find(parted(instance(SMALL, "1g.5gb", 3)))
    with pytest.raises(DevicePluginError, match=f"device nodes of card {SMALL} are not known"):
        list_card_nodes(found)


def test_instance_of_unknown_memory_does_not_use_device_table(parted, find):
    unknown = instance(SMALL, "1g.5gb", 1)
    del unknown["total"]
    (_, found) = find(parted(unknown))
    assert found.card.memory_bytes is None


def test_override_of_whole_card_does_not_apply_to_its_instances(parted, find, override):
    library = parted(instance(SMALL, "1g.5gb", 1))
    bdf = find(library)[1].card.bdf
    override(f'cards:\n  "{bdf}": {{memory: 30GiB}}\n')
    assert find(library)[1].card.memory_bytes == 5 * GIB
    override(f'cards:\n  "{SMALL}": {{memory: 4GiB}}\n')
    assert find(library)[1].card.memory_bytes == 4 * GIB


def test_card_in_mig_mode_without_instances_is_not_listed(parted, find):
    assert [each.card.id for each in find(parted())] == ["GPU-whole"]


@pytest.mark.parametrize("given", [{"mig": 0}, {"most": None}])
def test_card_without_mig_mode_or_instance_data_is_listed_as_one_card(parted, find, given):
    assert [each.card.id for each in find(parted(instance(SMALL, "1g.5gb", 1), **given))] == ["GPU-whole", "GPU-parent"]


def test_instance_without_uuid_is_not_listed(parted, find):
    nameless = instance(SMALL, "1g.5gb", 1)
    del nameless["uuid"]
    assert [each.card.id for each in find(parted(nameless, instance(LARGE, "3g.20gb", 2)))] == ["GPU-whole", LARGE]


def test_address_identifies_only_unpartitioned_cards(parted, find, host):
    found = find(parted(instance(SMALL, "1g.5gb", 1), instance(LARGE, "3g.20gb", 2)))
    assert find_cards_by_address(found) == {found[0].card.bdf: "GPU-whole"}
    assert len(compute_topology(host.root, found)) == 3
    assert all(each.card.links == () for each in found[1:])


@pytest.fixture
def cpx(host):
    """A host with two of AMD's cards, the first of them in two partitions as the compute driver tells them."""
    first, _ = host.add("amd", 2, "MI300X").cards
    nodes = "sys/class/kfd/kfd/topology/nodes"
    properties = (host.root / nodes / "1/properties").read_text()
    location = int(dict(line.split() for line in properties.splitlines())["location_id"])
    for node, number, render in ((1, 0, 128), (9, 1, 140)):
        text = properties.replace(f"location_id {location}", f"location_id {location + number}")
        host.write(f"{nodes}/{node}/properties", f"{text}\ndrm_render_minor {render}")
        host.write(f"{nodes}/{node}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {96 * GIB}")
    # Further partitions are devices of the platform.
    for entry in ("card12", "renderD140"):
        folder = host.root / "sys/devices/platform/amdgpu_xcp_0/drm" / entry
        folder.mkdir(parents=True)
        host.link(f"sys/class/drm/{entry}", folder)
    host.write(host.find_device_folder(first.bdf) / "current_compute_partition", "CPX")
    return first


def test_amd_partitions_with_own_device_nodes_are_cards(cpx, find):
    one, two, whole = find()
    assert one.card.id.startswith("GPU-")
    assert (one.card.id[-3:], two.card.id[:-3]) == ("-p0", one.card.id[:-3])
    assert (one.card.model, whole.card.model) == ("AMD Instinct MI300X CPX", "AMD Instinct MI300X")
    # What the driver's files say is the whole card's.
    assert [each.card.memory_bytes for each in (one, two, whole)] == [96 * GIB, 96 * GIB, 192 * GIB]
    assert one.card.memory_source == "kfd"
    assert list_card_nodes(two) == ["/dev/dri/card12", "/dev/dri/renderD140"] == list_own_nodes(two)
    assert list_card_nodes(one) == ["/dev/dri/card0", "/dev/dri/renderD128"]
    assert (two.card.minor, two.card.bdf, two.part_of) == (12, cpx.bdf, one.card.id[:-3])
    assert one.card.links == two.card.links == ()


def test_container_with_amd_partition_has_no_rocm_environment(cpx, find, host):
    found = find()
    answer = build_container_response(one_unit(found[1].card.id, found), found, host.root, unit_bytes=GIB)
    assert "ROCR_VISIBLE_DEVICES" not in answer.envs
    assert {each.host_path for each in answer.devices} == {"/dev/dri/card12", "/dev/dri/renderD140", "/dev/kfd"}


def test_amd_partition_with_unknown_device_nodes_is_refused(cpx, find, host):
    (host.root / "sys/class/drm/renderD140").unlink()
    with pytest.raises(DevicePluginError, match="device nodes of card"):
        list_card_nodes(find()[1])


def test_partitions_that_share_a_render_node_are_one_card(cpx, find, host):
    file = host.root / "sys/class/kfd/kfd/topology/nodes/9/properties"
    file.write_text(file.read_text().replace("drm_render_minor 140", "drm_render_minor 128"))
    assert len(find()) == 2
