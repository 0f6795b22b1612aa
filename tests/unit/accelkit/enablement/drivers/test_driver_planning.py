"""Plans: one DaemonSet per kernel and vendor, and nothing for nodes that may not be acted upon."""

import re

import msgspec
import pytest
from driver_nodes import KERNEL, OTHER, RHEL, build_card, build_node

from accelkit.enablement.drivers.planning.builds import plan_builds
from accelkit.enablement.drivers.planning.mismatch import find_mismatches
from accelkit.enablement.drivers.planning.names import MAX_NAME, build_name
from accelkit.enablement.drivers.planning.obsolete import DriverSet, find_obsolete
from accelkit.enablement.drivers.planning.packages import list_packages
from accelkit.enablement.drivers.planning.plan import plan_drivers
from accelkit.enablement.drivers.settings import read_drivers
from accelkit.enablement.drivers.systems import System, read_system
from accelkit.errors import ConfigurationError
from accelkit.inspection.provided_driver import build_label

PATTERN = "quay.io/acme/nvidia:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}-${OS}"
DRIVERS = read_drivers({"nvidia": {"version": "550.54.14", "image": PATTERN}})
NAME = "accelkit-driver-nvidia-5.14.0-427.13.1.el9-4.x86-64"


def plan(*nodes, drivers=DRIVERS):
    return plan_drivers(nodes, drivers, "accelkit-driver")


def test_nodes_of_one_kernel_share_driver_set():
    made = plan(build_node("b"), build_node("a"), build_node("c", kernel=OTHER), build_node("d", vendors=()))
    assert [(each.kernel, each.nodes, each.version) for each in made.sets] == [
        (KERNEL, ("a", "b"), "550.54.14"),
        (OTHER, ("c",), "550.54.14"),
    ]
    assert made.sets[0].name == NAME
    assert made.sets[0].image == f"quay.io/acme/nvidia:550.54.14-{KERNEL}-rhel9.4"
    assert made.problems == ()
    assert made.labels == {
        name: {"accelkit.io/driver-kernel": kernel, "accelkit.io/driver-vendor.nvidia": "true"}
        for name, kernel in (("a", KERNEL), ("b", KERNEL), ("c", OTHER))
    }


def test_each_configured_vendor_receives_own_driver_set():
    drivers = read_drivers({"nvidia": {"image": "n:1"}, "amd": {"image": "a:1"}})
    made = plan(build_node("a", vendors=("nvidia", "amd", "intel")), drivers=drivers)
    assert [(each.vendor, each.image) for each in made.sets] == [("amd", "a:1"), ("nvidia", "n:1")]
    assert len({each.name for each in made.sets}) == 2


def test_driver_label_of_one_vendor_does_not_apply_to_another_vendor():
    drivers = read_drivers({"nvidia": {"image": "n:1"}, "amd": {"image": "a:1"}})
    node = build_node("a", recorded=KERNEL, cards=(build_card(vendor="amd"),), cordoned=True)
    assert [each.vendor for each in plan(node, drivers=drivers).sets] == ["nvidia"]
    ready = build_node("a", recorded=KERNEL, cards=(build_card(vendor="amd"),))
    assert plan(ready, drivers=drivers).labels == {"a": {"accelkit.io/driver-vendor.amd": "true"}}


def test_vendor_is_read_from_inventory_without_labels():
    made = plan(build_node("a", vendors=(), cards=(build_card(),)))
    assert [each.nodes for each in made.sets] == [("a",)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ready": "False"}, "NodeNotReady"),
        ({"ready": "Unknown"}, "NodeNotReady"),
        ({"ready": ""}, "NodeNotReady"),
        ({"cordoned": True}, "NodeCordoned"),
        ({"kernel": ""}, "KernelUnknown"),
        ({"kernel": "5.14.0 --build-arg=$(id)"}, "KernelUnknown"),
        ({"kernel": "-f/etc/shadow"}, "KernelUnknown"),
        ({"kernel": "5" * 129}, "KernelUnknown"),
    ],
)
def test_unready_or_cordoned_nodes_are_reported_and_get_no_driver_set(changed, reason):
    made = plan(build_node("a", **changed))
    assert (made.sets, made.labels) == ((), {})
    [problem] = made.problems
    assert (problem.reason, problem.nodes, problem.wrong) == (reason, ("a",), False)


@pytest.mark.parametrize(("recorded", "sets"), [(KERNEL, [("a",)]), (OTHER, [])], ids=["its kernel", "a new kernel"])
def test_cordoned_node_keeps_its_driver_set(recorded, sets):
    made = plan(build_node("a", cordoned=True, recorded=recorded))
    assert ([each.nodes for each in made.sets], made.labels) == (sets, {})


def test_one_kernel_on_two_operating_systems_is_reported_with_nodes():
    made = plan(build_node("a"), build_node("b", os_image="Rocky Linux 9.4 (Blue Onyx)"))
    assert made.sets == ()
    [problem] = made.problems
    assert (problem.reason, problem.nodes, problem.wrong) == ("TwoSystems", ("a", "b"), True)
    assert "rhel9.4: a; rocky9.4: b" in str(problem)


def test_patch_levels_of_one_operating_system_share_driver_set():
    images = ["Ubuntu 22.04.4 LTS", "Ubuntu 22.04.5 LTS"]
    made = plan(*(build_node(name, os_image=image) for name, image in zip("ab", images, strict=True)))
    assert [each.system for each in made.sets] == ["ubuntu22.04"]


@pytest.mark.parametrize(
    ("image", "system"),
    [
        (RHEL, "rhel9.4"),
        ("Red Hat Enterprise Linux CoreOS 416.94.202405291527-0", "rhcos4.16"),
        ("Debian GNU/Linux 12 (bookworm)", "debian12"),
        ("SUSE Linux Enterprise Server 15 SP5", "sles15.5"),
        ("Talos (v1.7.0)", "talosv1.7"),
        ("Flatcar Container Linux by Kinvolk 3815.2.2 (Oklo)", "flatcar3815.2"),
        ("", ""),
    ],
)
def test_operating_systems_are_named_as_in_image_tags(image, system):
    assert str(read_system(image, {})) == system


def test_operating_system_is_read_from_node_feature_discovery_labels():
    prefix = "feature.node.kubernetes.io/system-os_release"
    assert str(read_system("Something", {f"{prefix}.ID": "rhel", f"{prefix}.VERSION_ID": "9.2"})) == "rhel9.2"


def test_operating_system_name_is_truncated():
    assert len(str(read_system(f"{'x' * 10**6} {'9' * 10**6}", {}))) == 64
    prefix = "feature.node.kubernetes.io/system-os_release"
    assert len(str(read_system("", {f"{prefix}.ID": "x" * 63, f"{prefix}.VERSION_ID": "9" * 63}))) == 64


def test_first_matching_kernel_mapping_wins_and_default_image_is_fallback():
    mappings = [
        {"literal": OTHER, "image": "literal:1"},
        {"regexp": "el9", "image": "nine:${KERNEL_XYZ}"},
        {"regexp": ".*", "image": "never:1"},
    ]
    drivers = read_drivers({"nvidia": {"image": "pattern:1", "kernel_mappings": mappings[:2]}})
    nodes = [build_node("a", kernel=OTHER), build_node("b"), build_node("c", kernel="6.8.0-45-generic")]
    assert {each.nodes[0]: each.image for each in plan(*nodes, drivers=drivers).sets} == {
        "a": "literal:1",
        "b": "nine:5.14.0",
        "c": "pattern:1",
    }
    only = read_drivers({"nvidia": {"kernel_mappings": mappings[:1]}})
    made = plan(build_node("b"), drivers=only)
    assert [(each.reason, each.nodes) for each in made.problems] == [("NoDriverImage", ("b",))]


def test_literal_kernel_mapping_is_not_treated_as_pattern():
    only = read_drivers({"nvidia": {"kernel_mappings": [{"literal": KERNEL.replace(".", "x"), "image": "i:1"}]}})
    assert plan(build_node("a"), drivers=only).sets == ()


def test_image_with_operating_system_placeholder_needs_operating_system():
    [problem] = plan(build_node("a", os_image="")).problems
    assert problem.reason == "SystemUnknown"
    assert plan(build_node("a", os_image=""), drivers=read_drivers({"nvidia": {"image": "i:1"}})).sets != ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nvidia": {"image": "i:${KERNEL}"}}, "${KERNEL}"),
        ({"nvidia": {"kernel_mappings": [{"image": "i"}]}}, "either literal or regexp"),
        ({"nvidia": {"kernel_mappings": [{"image": "i", "literal": "a", "regexp": "b"}]}}, "either literal or regexp"),
        ({"nvidia": {"kernel_mappings": [{"image": "i", "regexp": "("}]}}, "is not a valid regular expression"),
        ({"nvidia": {"imgae": "i"}}, "imgae"),
        ({"nvidia": None}, "nvidia"),
    ],
)
def test_invalid_driver_settings_are_rejected(given, says):
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        read_drivers(given)


def test_driver_set_names_are_valid_and_unique_per_kernel():
    long = "6.8.0-" + "very-long-flavour-" * 5
    names = {build_name("accelkit-driver", "nvidia", kernel) for kernel in (long + "a", long + "b", KERNEL, OTHER)}
    assert len(names) == 4
    odd = [build_name("p", "v", kernel) for kernel in ("6.1+fips", "6.1~fips", "6.1-fips", "6.1-FIPS")]
    assert len(set(odd)) == 4
    for name in (*names, *odd):
        assert len(name) <= MAX_NAME
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", name)


def test_similar_kernels_get_different_driver_set_names():
    made = plan(build_node("a", kernel="6.1.0-a_b"), build_node("b", kernel="6.1.0-a-b"))
    assert len({each.name for each in made.sets}) == 2
    assert len({each.label for each in made.sets}) == 2


@pytest.mark.parametrize("kernel", [KERNEL, "6.8.0-1015+fips", "6." + "1" * 80, "_6.1_", ""])
def test_kernel_labels_are_valid_label_values(kernel):
    label = build_label(kernel)
    assert len(label) <= 63
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?", label)
    assert (label == kernel) == bool(re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", kernel))


def driver_set(name, *, desired=0, misscheduled=0, generation=1, observed=1):
    status = {
        "desiredNumberScheduled": desired,
        "numberMisscheduled": misscheduled,
        "observedGeneration": observed,
    }
    status = {key: value for key, value in status.items() if value is not None}
    return msgspec.convert({"metadata": {"name": name, "generation": generation}, "status": status}, DriverSet)


def test_obsolete_driver_sets_are_deleted_only_without_pods():
    existing = [
        driver_set("wanted"),
        driver_set("idle"),
        driver_set("desired", desired=1),
        driver_set("misscheduled", misscheduled=1),
        driver_set("unknown", desired=None),
        driver_set("behind", generation=2),
    ]
    found = find_obsolete(existing, {"wanted"})
    assert found.deletable == ("idle",)
    assert found.occupied == ("behind", "desired", "misscheduled", "unknown")


def test_kernel_mismatch_hides_other_mismatches():
    node = build_node("a", recorded=OTHER, cards=(build_card(driver="1"),))
    [problem] = find_mismatches([node], DRIVERS)
    assert (problem.reason, problem.wrong) == ("KernelDriverMismatch", True)


@pytest.mark.parametrize(
    ("cards", "reason", "wrong"),
    [
        (None, "DriverVersionUnknown", False),
        ((), "DriverMissing", True),
        ((build_card(driver=""),), "DriverVersionUnknown", False),
        ((build_card(driver="535.1"),), "DriverOther", True),
        ((build_card(driver="550.54.14"), build_card(1, driver="535.1")), "DriverOther", True),
        ((build_card(driver="550.54.14"),), None, None),
    ],
)
def test_driver_version_from_agent_is_compared_with_target(cards, reason, wrong):
    found = list(find_mismatches([build_node("a", recorded=KERNEL, cards=cards)], DRIVERS))
    assert [(each.reason, each.wrong) for each in found] == ([(reason, wrong)] if reason else [])


def test_no_mismatch_is_reported_without_target_version():
    assert list(find_mismatches([build_node("a")], read_drivers({"nvidia": {"image": "i:1"}}))) == []
    assert list(find_mismatches([build_node("a", vendors=())], DRIVERS)) == []


BUILD = {
    "containerfile": "FROM registry.example.org/base",
    "builder": "kaniko:1",
    "args": ["--destination=${IMAGE}", "--dockerfile=${CONTAINERFILE}", "--build-arg=K=${KERNEL_FULL_VERSION}-${OS}"],
    "push_secret": "push",
    "entitlement_secret": "rhel",
}


def test_only_missing_images_are_built():
    drivers = read_drivers({"nvidia": {"image": "i:${KERNEL_FULL_VERSION}", "build": BUILD}})
    sets = plan(build_node("a", kernel="6.1+x"), drivers=drivers).sets
    systems = {"a": System("rhel", "9.4")}
    for present in ({}, {"i:6.1_x": True}, {"i:6.1_x": None}):
        assert plan_builds(sets, drivers, present, systems) == ()
    [build] = plan_builds(sets, drivers, {"i:6.1_x": False}, systems)
    assert build.args == (
        "--destination=i:6.1_x",
        "--dockerfile=/workspace/Containerfile",
        "--build-arg=K=6.1+x-rhel9.4",
    )
    assert (build.push_secret, build.entitlement_secret) == ("push", "rhel")
    # What a running Job reads does not change.
    other = read_drivers(
        {"nvidia": {"image": "i:${KERNEL_FULL_VERSION}", "build": BUILD | {"containerfile": "FROM y"}}}
    )
    [changed] = plan_builds(sets, other, {"i:6.1_x": False}, systems)
    assert changed.name != build.name
    # The Job's own hash has room.
    assert max(len(build.name), len(changed.name)) <= MAX_NAME - 9
    without = read_drivers({"nvidia": {"image": "i:${KERNEL_FULL_VERSION}"}})
    assert plan_builds(sets, without, {"i:6.1_x": False}, systems) == ()


def test_packages_are_pinned_to_kernel_and_driver_version():
    packages = ["nvidia-driver-${DRIVER_VERSION}", "kmod-nvidia-${KERNEL_FULL_VERSION}"]
    drivers = read_drivers({"nvidia": {"version": "550", "packages": packages}})
    nodes = [build_node("a", kernel="6.1+x"), build_node("b", vendors=()), build_node("c", vendors=("amd",))]
    assert list_packages(nodes, drivers) == {"a": ("kmod-nvidia-6.1+x", "nvidia-driver-550")}
    future = list_packages(nodes, drivers, kernel="6.2", version="570")
    assert future == {"a": ("kmod-nvidia-6.2", "nvidia-driver-570")}
