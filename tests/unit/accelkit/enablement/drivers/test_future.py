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


def test_the_kernel_that_runs_works_and_so_does_any_without_cards():
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
def test_a_kernel_works_where_its_image_is_there(present, build, expected, mode):
    how = delivery(mode, module_manager=True, **({"build": build} if build else {}))
    assert kernel(facts=with_image(present), how=how) == expected


def test_an_image_that_nobody_looked_for_is_unknown():
    assert kernel() == ("unknown", "ImageUnknown")


def test_a_kernel_that_no_mapping_names_does_not_work():
    how = delivery(image="", kernel_mappings=[{"literal": KERNEL, "image": "i:1"}])
    assert kernel(how=how) == ("no", "NoDriverImage")


def test_a_system_that_is_not_known_leaves_the_answer_open():
    assert kernel(node=build_node("a", os_image=""), how=delivery(image="i:${OS}")) == ("unknown", "SystemUnknown")


def test_of_several_vendors_the_worst_counts():
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
def test_other_modes_answer_by_what_their_source_said(mode, packages, expected):
    assert kernel(facts=FutureFacts(packages=packages), how=delivery(mode)) == expected


def test_the_images_that_an_answer_needs_are_listed():
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
def test_versions_are_held_to_the_skew_that_kubernetes_allows(version, changed, expected):
    assert kubernetes(version, **changed) == expected


def test_kubelets_may_be_two_minor_versions_older_before_1_28():
    facts = served("v1.26.1")
    assert kubernetes("1.27", facts, kubelet="v1.25.1") == ("yes", "Works")
    assert kubernetes("1.27", facts, kubelet="v1.24.1") == ("no", "KubeletTooOld")


def test_versions_beyond_the_table_are_unknown():
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
def test_apis_that_go_are_those_that_the_api_server_counts(requested, expected):
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
def test_devices_need_their_feature_gates(server, field, expected):
    target = f"1.{read_minor(server) + 1}"
    facts = served(server, slice_fields={"a": frozenset({field})})
    assert kubernetes(target, facts, kubelet=server) == expected
    elsewhere = served(server, slice_fields={"b": frozenset({field})})
    assert kubernetes(target, elsewhere, kubelet=server) == ("yes", "Works")


def test_slices_that_could_not_be_read_leave_the_answer_open():
    assert kubernetes("1.35", FutureFacts(server="v1.34.4", requested=())) == ("unknown", "DevicesUnknown")


def test_every_kind_that_the_playbooks_apply_is_served_by_every_version_of_the_table():
    newest = read_minor(load_table().newest)
    assert [list_lost_kinds(minor) for minor in range(21, newest + 1)] == [[]] * (newest - 20)


def test_the_table_is_written_as_it_is_read():
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
def test_a_driver_works_where_the_caches_that_load_today_load_still(version, caches, expected):
    assert driver(version, caches) == expected


def test_caches_for_cards_that_nobody_knows_are_unknown():
    assert driver("550", {"c": cache(84)}, cards=None) == ("unknown", "CardsUnknown")


def test_another_vendor_is_not_concerned():
    assert driver("535.104.05", {"c": cache(84)}, vendor="amd") == ("yes", "Works")


def test_a_driver_in_a_container_needs_its_image():
    images = {f"quay.io/acme/nvidia:570-{KERNEL}": False}
    assert driver("570", {}, mode="container", images=images) == ("no", "ImageMissing")
    assert driver("570", {}, mode="container", images=dict.fromkeys(images, True)) == ("yes", "Works")
    assert driver("570", {}, mode="package", packages={"a": True}) == ("yes", "Works")


@pytest.mark.parametrize(
    ("mode", "there"), [("preinstalled", "has to be installed on the host"), ("container", "is available")]
)
def test_only_what_was_looked_for_is_said_to_be_there(mode, there):
    known = FutureFacts(caches={}, images={f"quay.io/acme/nvidia:570-{KERNEL}": True})
    [answer] = judge_future([build_node("a")], FutureVersions(driver="570"), delivery(mode), known)
    assert answer.works is Works.YES
    assert answer.evidence.startswith(f"the driver 570 {there}, and ")


def test_all_questions_are_answered_for_all_nodes():
    question = FutureVersions(kernel=OTHER, kubernetes="1.35", driver="570")
    found = judge_future([build_node("a"), build_node("b")], question, delivery(), FutureFacts())
    assert [(each.node, each.aspect.value) for each in found] == [
        (node, aspect) for node in ("a", "b") for aspect in ("kernel", "kubernetes", "driver")
    ]
    # Nothing was read, so nothing is known.
    assert {each.works for each in found} == {Works.UNKNOWN}
