"""Whether nodes work with what is to come: yes, no, or unknown, and never a yes by what was not read."""

import re

import pytest
from driver_nodes import KERNEL, OTHER, build_card, build_node

from accelkit.enablement.drivers.future.answers import FutureFacts, FutureVersions, RequestedApi, Works
from accelkit.enablement.drivers.future.judging import judge_future
from accelkit.enablement.drivers.future.kernel import DriverDelivery, list_images
from accelkit.enablement.drivers.future.kubernetes import list_lost_kinds, load_table, read_minor
from accelkit.enablement.drivers.reasons import NEXT_ACTIONS
from accelkit.enablement.drivers.settings import read_drivers
from accelkit.kernelcache.formats import ImageLabels, Target

IMAGE = "quay.io/acme/nvidia:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}"
BUILD = {"containerfile": "FROM x", "builder": "kaniko:1", "args": ["--destination=${IMAGE}"]}
NVIDIA = {"version": "550", "image": IMAGE}


def served(server, **changed):
    """What is known of a cluster whose API server is of a version."""
    return FutureFacts(server=server, **{"requested": (), "slice_fields": {}, "caches": {}, **changed})


KNOWN = served("v1.34.4")


def delivery(mode="container", module_manager=False, **changed):
    return DriverDelivery(mode, read_drivers({"nvidia": NVIDIA | changed}), module_manager)


def ask(node, question, facts=KNOWN, how=None):
    [answer] = judge_future([node], question, how or delivery(), facts)
    assert answer.next_action == NEXT_ACTIONS[answer.reason]
    assert answer.evidence
    return answer.works.value, answer.reason


def kernel(**changed):
    given = {"node": build_node("a"), "facts": KNOWN, "how": delivery(), **changed}
    return ask(given["node"], FutureVersions(kernel=OTHER), given["facts"], given["how"])


def with_image(present):
    return FutureFacts(images={f"quay.io/acme/nvidia:550-{OTHER}": present})


def test_running_kernel_and_nodes_without_cards_work():
    assert ask(build_node("a"), FutureVersions(kernel=KERNEL)) == ("yes", "Works")
    assert kernel(node=build_node("a", vendors=())) == ("yes", "Works")


@pytest.mark.parametrize(
    ("present", "build", "expected"),
    [
        (True, None, ("yes", "Works")),
        (False, None, ("no", "ImageMissing")),
        (False, BUILD, ("unknown", "ImageWillBeBuilt")),
        (None, BUILD, ("unknown", "ImageUnknown")),
    ],
)
@pytest.mark.parametrize("mode", ["container", "kmm"])
def test_kernel_works_if_its_driver_image_exists(present, build, expected, mode):
    how = delivery(mode, module_manager=True, **({"build": build} if build else {}))
    assert kernel(facts=with_image(present), how=how) == expected


def test_image_that_was_not_looked_up_is_unknown():
    assert kernel() == ("unknown", "ImageUnknown")


def test_kernel_without_mapping_does_not_work():
    how = delivery(image="", kernel_mappings=[{"literal": KERNEL, "image": "i:1"}])
    assert kernel(how=how) == ("no", "NoDriverImage")


def test_kernel_is_unknown_if_operating_system_is_unknown():
    assert kernel(node=build_node("a", os_image=""), how=delivery(image="i:${OS}")) == ("unknown", "SystemUnknown")


def test_worst_answer_of_several_vendors_counts():
    node = build_node("a", vendors=("nvidia", "amd"))
    assert kernel(node=node, facts=with_image(True)) == ("unknown", "NotConfigured")


@pytest.mark.parametrize(
    ("mode", "packages", "expected"),
    [
        ("preinstalled", {}, ("unknown", "HostsOwnDriver")),
        ("package", {}, ("unknown", "PackageUnknown")),
        ("package", {"a": None}, ("unknown", "PackageUnknown")),
        ("package", {"a": True}, ("yes", "Works")),
        ("package", {"a": False}, ("no", "PackageMissing")),
        ("kmm", {}, ("no", "NoModuleManager")),
    ],
)
def test_other_driver_modes_use_result_of_their_source(mode, packages, expected):
    assert kernel(facts=FutureFacts(packages=packages), how=delivery(mode)) == expected


def test_list_images_returns_images_needed_for_answer():
    nodes = [build_node("a"), build_node("b", vendors=("amd",))]
    assert list_images(nodes, delivery(), OTHER) == {f"quay.io/acme/nvidia:550-{OTHER}"}
    assert list_images(nodes, delivery(), "", "570") == {f"quay.io/acme/nvidia:570-{KERNEL}"}
    assert list_images(nodes, delivery("package"), OTHER) == set()


def kubernetes(version, facts=KNOWN, **changed):
    return ask(build_node("a", **changed), FutureVersions(kubernetes=version), facts)


@pytest.mark.parametrize(
    ("version", "changed", "expected"),
    [
        ("1.34", {}, ("yes", "Works")),
        ("1.35", {}, ("yes", "Works")),
        ("v1.35.2", {}, ("yes", "Works")),
        ("1.36", {}, ("no", "StepTooLong")),
        ("1.33", {"kubelet": "v1.33.1"}, ("no", "StepBack")),
        ("1.35", {"kubelet": "v1.32.9+k3s1"}, ("yes", "Works")),
        ("1.35", {"kubelet": "v1.31.9"}, ("no", "KubeletTooOld")),
        ("1.34", {"kubelet": "v1.35.0"}, ("no", "KubeletTooNew")),
        ("1.35", {"kubelet": "x"}, ("unknown", "VersionUnreadable")),
        ("1.35", {"kubelet": f"v1.{'9' * 5000}"}, ("unknown", "VersionUnreadable")),
        ("latest", {}, ("unknown", "VersionUnreadable")),
        ("2.0", {}, ("unknown", "VersionUnreadable")),
    ],
)
def test_kubernetes_version_respects_version_skew_policy(version, changed, expected):
    assert kubernetes(version, **changed) == expected


def test_kubelet_skew_is_two_minor_versions_before_1_28():
    facts = served("v1.26.1")
    assert kubernetes("1.27", facts, kubelet="v1.25.1") == ("yes", "Works")
    assert kubernetes("1.27", facts, kubelet="v1.24.1") == ("no", "KubeletTooOld")


def test_kubernetes_version_newer_than_table_is_unknown():
    newest = read_minor(load_table().newest)
    facts = served(f"v1.{newest}.0")
    assert kubernetes(f"1.{newest + 1}", facts, kubelet=f"v1.{newest}.0") == ("unknown", "NewerThanKnown")


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (None, ("unknown", "ApisUnknown")),
        ((), ("yes", "Works")),
        ((RequestedApi("resource.k8s.io/v1beta1", "resourceclaims", "1.35"),), ("no", "ApiRemoved")),
        ((RequestedApi("resource.k8s.io/v1beta1", "resourceclaims", "1.36"),), ("yes", "Works")),
        ((RequestedApi("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas", ""),), ("no", "ApiRemoved")),
        ((RequestedApi("v1", "endpoints", ""),), ("yes", "Works")),
    ],
)
def test_removed_apis_that_clients_request_are_reported(requested, expected):
    assert kubernetes("1.35", served("v1.34.4", requested=requested)) == expected


@pytest.mark.parametrize(
    ("server", "field", "expected"),
    [
        ("v1.34.1", "allowMultipleAllocations", ("unknown", "GateOff")),
        ("v1.35.1", "allowMultipleAllocations", ("yes", "Works")),
        ("v1.32.1", "allowMultipleAllocations", ("no", "GateMissing")),
        ("v1.33.1", "devices", ("yes", "Works")),
        ("v1.36.1", "taints", ("yes", "Works")),
        ("v1.35.1", "taints", ("unknown", "GateOff")),
    ],
)
def test_devices_require_their_feature_gates(server, field, expected):
    target = f"1.{read_minor(server) + 1}"
    facts = served(server, slice_fields={"a": frozenset({field})})
    assert kubernetes(target, facts, kubelet=server) == expected
    elsewhere = served(server, slice_fields={"b": frozenset({field})})
    assert kubernetes(target, elsewhere, kubelet=server) == ("yes", "Works")


def test_answer_is_unknown_if_resource_slices_are_unreadable():
    assert kubernetes("1.35", FutureFacts(server="v1.34.4", requested=())) == ("unknown", "DevicesUnknown")


def test_applied_kinds_are_served_by_every_version_in_table():
    newest = read_minor(load_table().newest)
    assert [list_lost_kinds(minor) for minor in range(21, newest + 1)] == [[]] * (newest - 20)


def test_version_table_has_valid_entries():
    for names in load_table().removed.values():
        assert all(re.fullmatch(r"[a-z0-9.]+/v\d+\w* [a-z]+", name) for name in names)
    for gate in load_table().gates.values():
        assert read_minor(gate.since) <= read_minor(gate.on_since)


def cache(ptx, arch="90"):
    target = Target("cuda", arch=arch, warp_size=32, ptx_version=ptx)
    return ImageLabels(format="triton", targets=(target,), cpu_architecture="amd64")


CARDS = (build_card(driver="550.54.14"),)


def driver(version, caches, *, cards=CARDS, mode="preinstalled", vendor="", **facts):
    node = build_node("a", cards=cards)
    return ask(node, FutureVersions(driver=version, vendor=vendor), FutureFacts(caches=caches, **facts), delivery(mode))


@pytest.mark.parametrize(
    ("version", "caches", "expected"),
    [
        ("535.104.05", {}, ("yes", "Works")),
        ("550.54.14", {"c": cache(84)}, ("yes", "Works")),
        ("535.104.05", {"c": cache(84)}, ("no", "CachesUseless")),
        ("999.1", {"c": cache(99)}, ("yes", "Works")),
        ("535.104.05", {"c": cache(84), "d": None}, ("no", "CachesUseless")),
        ("550.54.14", {"c": cache(84), "d": None}, ("unknown", "CachesUnknown")),
        ("535.104.05", {"c": cache(84, arch="80")}, ("yes", "Works")),
        ("550.54.14", None, ("unknown", "CachesUnknown")),
        ("new", {"c": cache(84)}, ("unknown", "CachesUncertain")),
    ],
)
def test_driver_works_if_currently_compatible_caches_remain_compatible(version, caches, expected):
    assert driver(version, caches) == expected


def test_caches_for_unknown_cards_are_unknown():
    assert driver("550", {"c": cache(84)}, cards=None) == ("unknown", "CardsUnknown")


def test_caches_of_another_vendor_do_not_affect_driver():
    assert driver("535.104.05", {"c": cache(84)}, vendor="amd") == ("yes", "Works")


def test_containerized_driver_needs_existing_image():
    images = {f"quay.io/acme/nvidia:570-{KERNEL}": False}
    assert driver("570", {}, mode="container", images=images) == ("no", "ImageMissing")
    assert driver("570", {}, mode="container", images=dict.fromkeys(images, True)) == ("yes", "Works")
    assert driver("570", {}, mode="package", packages={"a": True}) == ("yes", "Works")


@pytest.mark.parametrize(
    ("mode", "there"), [("preinstalled", "has to be installed on the host"), ("container", "is available")]
)
def test_evidence_reports_driver_as_available_only_if_checked(mode, there):
    known = FutureFacts(caches={}, images={f"quay.io/acme/nvidia:570-{KERNEL}": True})
    [answer] = judge_future([build_node("a")], FutureVersions(driver="570"), delivery(mode), known)
    assert answer.works is Works.YES
    assert answer.evidence.startswith(f"the driver 570 {there}, and ")


def test_every_question_is_answered_for_every_node():
    question = FutureVersions(kernel=OTHER, kubernetes="1.35", driver="570")
    found = judge_future([build_node("a"), build_node("b")], question, delivery(), FutureFacts())
    assert [(each.node, each.aspect.value) for each in found] == [
        (node, aspect) for node in ("a", "b") for aspect in ("kernel", "kubernetes", "driver")
    ]
    # Nothing was read, so nothing is known.
    assert {each.works for each in found} == {Works.UNKNOWN}
