"""The audit in `accelkit verify`: its outcome counts, each format shows it, and its rights may be missing."""

import json
from xml.etree import ElementTree as ET

import pytest
from support.clocks import Clock

from accelkit.audit import evidence
from accelkit.enablement import verifying
from accelkit.enablement.report.formats import ReportFormat, write_report
from accelkit.enablement.report.problems import describe_accounting
from accelkit.enablement.verifying import verify_cluster
from accelkit.errors import ApiError
from accelkit.kube.paths import PODS, build_config_maps_path
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, Allocations, HeldDevices, HeldPod, encode_allocations

GIB = 2**30


MESSAGE = "card GPU-n-0 of n has 80 GiB, but its shares use 81 GiB"


def fill(api, *amounts):
    """Put pods onto the node's first card; its kubelet gave each what it is assigned."""
    for number, amount in enumerate(amounts):
        assignment = encode_assignment(Assignment({"c": (Share("GPU-n-0", amount * GIB),)}))
        annotations = {ASSIGNMENT_ANNOTATION: assignment}
        metadata = {"name": f"p{number}", "namespace": "d", "uid": f"{number}", "annotations": annotations}
        limits = {"resources": {"limits": {"accelkit.io/memory": str(amount)}}}
        spec = {"nodeName": "n", "containers": [{"name": "c", **limits}]}
        api.store(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "startTime": "now"}})
    held = [
        HeldPod("d", f"p{number}", {"c": HeldDevices({"GPU-n-0": amount})}) for number, amount in enumerate(amounts)
    ]
    data = {ALLOCATIONS_KEY: encode_allocations(Allocations("n", tuple(held), ()))}
    api.store(build_config_maps_path("accelkit"), {"metadata": {"name": "n"}, "data": data})
    return api


async def test_card_over_capacity_fails_report_although_stages_passed(cluster):
    report = await verify_cluster(fill(cluster.serve(), 41, 40), namespace="accelkit")
    assert {node.outcome for node in report.nodes} == {"pass"}
    assert (report.outcome, report.exit_code) == ("fail", 4)
    assert [(each.kind, each.message) for each in report.accounting.differences] == [("over_capacity", MESSAGE)]


async def test_accounting_without_differences_passes(cluster):
    report = await verify_cluster(fill(cluster.serve(), 40, 40), namespace="accelkit")
    assert (report.exit_code, report.accounting.outcome, report.accounting.differences) == (0, "pass", ())
    assert any(note.startswith("the ledger is not compared") for note in report.accounting.notes)


async def test_accounting_without_permission_is_unknown(cluster):
    api = fill(cluster.serve(), 41, 40)
    api.fail(ApiError("configmaps is forbidden", status=403), path=build_config_maps_path("accelkit"), times=None)
    report = await verify_cluster(api, namespace="accelkit")
    assert (report.outcome, report.exit_code) == ("unknown", 3)
    assert report.accounting.problem == "no comparison was possible: configmaps is forbidden"


async def test_accounting_differences_on_unselected_nodes_are_ignored(enabled):
    api = fill(enabled("n", "m").serve(), 41, 40)
    assert (await verify_cluster(api, namespace="accelkit", nodes=["m"])).exit_code == 0
    assert (await verify_cluster(api, namespace="accelkit", nodes=["n"])).exit_code == 4


async def test_accounting_waits_for_transient_difference_to_disappear(cluster, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(verifying, "SETTLE_SECONDS", 20.0)
    monkeypatch.setattr(evidence, "time", clock)
    monkeypatch.setattr(evidence, "asyncio", clock)
    api = fill(cluster.serve(), 41, 40)

    def end(_request):
        if clock.now >= 3:
            api.objects["/api/v1/namespaces/d/pods/p1"]["status"]["phase"] = "Succeeded"
            fill(api, 41)

    api.before.append(end)
    report = await verify_cluster(api, namespace="accelkit")
    assert (report.exit_code, clock.now) == (0, 3)


@pytest.fixture
async def over(cluster):
    return await verify_cluster(fill(cluster.serve(), 41, 40), namespace="accelkit")


async def test_text_report_names_accounting_differences_and_next_step(over):
    text = write_report(over, ReportFormat.TEXT)
    assert "accounting  FAIL" in text
    assert f"      over_capacity: {MESSAGE}\n" in text
    assert "`accelkit audit`" in text
    assert text.rstrip().endswith("1 of 1 node passed; worst: fail")


async def test_every_report_format_contains_accounting(over):
    assert json.loads(write_report(over, ReportFormat.JSON))["accounting"]["differences"][0]["message"] == MESSAGE
    assert f"(over_capacity: {MESSAGE})" in write_report(over, ReportFormat.HTML)
    root = ET.fromstring(write_report(over, ReportFormat.JUNIT).encode())  # noqa: S314 - our own document
    failures = root.findall("./testsuite[@name='accounting']/testcase/failure")
    assert (root.get("failures"), [each.get("type") for each in failures]) == ("1", ["Accounting"])
    assert MESSAGE in failures[0].text
    assert int(root.get("tests")) == len(root.findall(".//testcase"))
    document = json.loads(write_report(over, ReportFormat.CTRF))["results"]
    assert [test["status"] for test in document["tests"] if test["name"] == "accounting"] == ["failed"]
    assert (document["summary"]["failed"], document["summary"]["tests"]) == (1, len(document["tests"]))
    assert describe_accounting(over)[0].startswith(f"accounting: fail (over_capacity: {MESSAGE}); ")


@pytest.mark.parametrize("wanted", [ReportFormat.JUNIT, ReportFormat.CTRF, ReportFormat.TEXT])
async def test_unknown_accounting_is_reported_neither_as_pass_nor_as_fail(cluster, wanted):
    api = cluster.serve()
    api.fail(ApiError("no right", status=403), path=PODS, times=None)
    text = write_report(await verify_cluster(api, namespace="accelkit"), wanted)
    assert "no comparison was possible: no right" in text
    if wanted is ReportFormat.JUNIT:
        root = ET.fromstring(text.encode())  # noqa: S314 - our own document
        assert (root.get("failures"), root.get("errors")) == ("0", "1")
