"""What is read of nodes and pods and written to them, as requests to an API server."""

import copy

import msgspec
import pytest
from node_api import CONFIG_MAPS, NODES, NodeApi
from remediation_cluster import make_card, make_metrics

from accelkit.errors import ApiError, ConfigurationError, NotLeadingError
from accelkit.kube.events import Events
from accelkit.model.card import Health
from accelkit.model.pod import PodRef
from accelkit.remediation.action_writer import ActionWriter
from accelkit.remediation.breaker_store import BreakerStore
from accelkit.remediation.controller import Controller
from accelkit.remediation.deciding.actions import CreateJob, Evict, NodeEvent, PodEvent, WriteCondition
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.nodes import NodeIndex, NodeObject
from accelkit.remediation.reading import NodeReader
from accelkit.remediation.undoing import undo_all
from accelkit.vendors.dialects import load_dialects

DRAIN = {"health": Health.UNHEALTHY, "fault": "xid 79 at 1.0", "health_reason": "XID 79"}
WELL = {"health": Health.HEALTHY, "fault": "", "health_reason": ""}
CRON_JOBS = "/apis/batch/v1/namespaces/accelkit/cronjobs"
JOBS = "/apis/batch/v1/namespaces/accelkit/jobs"
TEMPLATE = {
    "metadata": {"name": "reset", "namespace": "accelkit"},
    "spec": {
        "suspend": True,
        "jobTemplate": {
            "metadata": {"labels": {"team": "infra"}},
            "spec": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "reset", "image": "i"}]}},
            },
        },
    },
}


class Site:
    """A controller on an API server in memory, with a clock that is moved by hand."""

    def __init__(self, api, **settings):
        self.api, self.now, self.leads = api, 1000.0, True
        chosen = {"mode": Mode.ON, "max_unavailable": 1.0, "trip_share": 1.0, **settings}
        self.settings = RemediationSettings(**chosen)
        self.seen = NodeIndex()
        self.metrics = make_metrics()
        self.applier = ActionWriter(
            api,
            Events(api, "accelkit-remediation", "here"),
            namespace="accelkit",
            reset_job=self.settings.reset_job,
            job_seconds=60,
            leads=lambda: self.leads,
            on_node=self.seen.take,
            count=self.metrics.count,
        )
        self.reader = NodeReader(
            api, "accelkit", "accelkit-node-agent", load_dialects(["native"]), reads_jobs=bool(self.settings.reset_job)
        )
        self.controller = Controller(
            self.seen.list_all,
            self.reader,
            self.applier,
            BreakerStore(api, "accelkit", "breaker"),
            settings=self.settings,
            metrics=self.metrics,
            ready=lambda: True,
            silent_seconds=lambda: 0.0,
            clock=lambda: self.now,
            wall=lambda: self.now,
        )

    async def run_pass(self, count=1, *, after=10.0):
        for _ in range(count):
            self.now += after
            nodes = msgspec.json.decode(await self.api.get(NODES))["items"]
            self.seen.replace(msgspec.convert(nodes, list[NodeObject]))
            await self.controller.run_pass()


@pytest.fixture
def api():
    return NodeApi()


def strip(node):
    """A node without what its agent writes."""
    left = copy.deepcopy(node)
    left["metadata"]["annotations"].pop("accelkit.io/inventory")
    left["spec"] = {key: value for key, value in left["spec"].items() if value}
    return left


async def test_node_is_restored_after_failure_and_repair(api):
    node = api.put_node("n", cordon="7")
    before = strip(node)
    api.put_pod("n", "victim", "GPU-0", priority=3)
    api.put_pod("n", "other", "GPU-1")
    api.observe("n", victim="GPU-0", other="GPU-1")
    path = "/api/v1/namespaces/a/pods/victim"
    api.reviews[f"{path}/eviction"] = lambda _request: api.objects.pop(path) and {}
    site = Site(api)
    api.fail_card("n", "GPU-0", **DRAIN)
    await site.run_pass(3)
    now = api.objects[f"{NODES}/n"]
    assert now["metadata"]["annotations"]["accelkit.io/cordon"] == "7,GPU-0"
    assert now["spec"]["taints"] == [{"key": "accelkit.io/unhealthy", "value": "Xid79", "effect": "NoSchedule"}]
    conditions = {each["type"]: each for each in now["status"]["conditions"]}
    assert conditions["Ready"] == {"type": "Ready", "status": "True"}
    assert (conditions["AcceleratorHealthy"]["status"], conditions["AcceleratorHealthy"]["reason"]) == (
        "False",
        "Xid79",
    )
    assert path not in api.objects
    assert "/api/v1/namespaces/a/pods/other" in api.objects
    events = [item for where, item in api.objects.items() if "/namespaces/a/events/" in where]
    assert [each["reason"] for each in events] == ["CardFailed"]
    api.observe("n", other="GPU-1")
    api.fail_card("n", "GPU-0", **WELL)
    await site.run_pass(3, after=601)
    assert strip(api.objects[f"{NODES}/n"]) == before
    assert b"accelkit_remediation_repair_duration_seconds_count 1.0" in site.metrics.render()


async def test_reader_reports_holders_of_each_card_like_ledger(api):
    api.put_node("n")
    api.put_pod("n", "high", "GPU-0", priority=9)
    api.put_pod("n", "nowhere", None)
    api.observe("n", high="GPU-0", hidden="GPU-1")
    view = await Site(api).reader.read("n")
    assert [(each.pod.name, each.priority) for each in view.holders["GPU-0"]] == [("high", 9)]
    assert [each.pod.name for each in view.unplaced] == ["nowhere"]
    assert view.observed == {"GPU-0", "GPU-1"}
    assert not view.is_free("GPU-1")
    assert (view.ready, view.watched, view.boot_id) == (True, True, "b")


@pytest.mark.parametrize(
    "text", [None, "{", '{"node":"m","pods":[],"version":1}'], ids=["gone", "no sense", "other node"]
)
async def test_no_card_is_free_without_valid_allocations(api, text):
    api.put_node("n")
    if text is None:
        del api.objects[f"{CONFIG_MAPS}/n"]
    else:
        api.objects[f"{CONFIG_MAPS}/n"]["data"]["allocations.json"] = text
    view = await Site(api).reader.read("n")
    assert view.observed is None
    assert not view.is_free("GPU-0")


@pytest.mark.parametrize("what", ["gone", "not ready", "going", "of a tenant"])
async def test_cards_are_unknown_without_ready_agent_of_accelkit(api, what):
    api.put_node("n")
    path = "/api/v1/namespaces/accelkit/pods/agent-n"
    if what == "gone":
        del api.objects[path]
    elif what == "not ready":
        api.objects[path]["status"]["conditions"] = []
    elif what == "going":
        api.objects[path]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        api.objects["/api/v1/namespaces/a/pods/agent-n"] = api.objects.pop(path)
        api.objects["/api/v1/namespaces/a/pods/agent-n"]["metadata"]["namespace"] = "a"
    assert (await Site(api).reader.read("n")).obstacle == "AgentAway"


async def test_missing_node_or_inventory_is_not_healthy(api):
    node = api.put_node("n")
    reader = Site(api).reader
    assert await reader.read("m") is None
    del node["metadata"]["annotations"]["accelkit.io/inventory"]
    assert (await reader.read("n")).obstacle == "InventoryUnknown"


async def test_job_is_created_once_on_node_from_suspended_template(api):
    api.put_node("n")
    api.store(CRON_JOBS, TEMPLATE)
    site = Site(api, reset_job="reset")
    view = await site.reader.read("n")
    action = CreateJob("accelkit-reset-0123456789abcdef", "GPU-0", "Xid79")
    await site.applier.carry_out(view, (action, action))
    job = api.objects[f"{JOBS}/{action.name}"]
    assert job["metadata"]["labels"] == {"team": "infra", "accelkit.io/resets": "reset"}
    assert (job["spec"]["activeDeadlineSeconds"], job["spec"]["backoffLimit"]) == (60, 0)
    pod = job["spec"]["template"]["spec"]
    assert (pod["nodeName"], pod["tolerations"]) == ("n", [{"operator": "Exists"}])
    env = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert env == {
        "ACCELKIT_CARD": "GPU-0",
        "ACCELKIT_NODE": "n",
        "ACCELKIT_REASON": "Xid79",
        "ACCELKIT_BDF": "",
    }


@pytest.mark.parametrize(
    ("reported", "given"), [("0000:b1:00.0", "0000:b1:00.0"), ("10000:e1:00.0",) * 2, ("../../sda", ""), ("--all", "")]
)
async def test_job_receives_only_valid_card_address_from_inventory(api, reported, given):
    api.put_node("n")
    api.fail_card("n", "GPU-0", bdf=reported)
    api.store(CRON_JOBS, TEMPLATE)
    site = Site(api, reset_job="reset")
    action = CreateJob("accelkit-reset-0123456789abcdef", "GPU-0", "Xid79")
    await site.applier.carry_out(await site.reader.read("n"), (action,))
    (container,) = api.objects[f"{JOBS}/{action.name}"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "ACCELKIT_BDF", "value": given} in container["env"]


@pytest.mark.parametrize("suspend", [False, None])
async def test_missing_or_unsuspended_template_is_refused_with_next_step(api, suspend):
    api.put_node("n")
    if suspend is False:
        api.store(CRON_JOBS, {**TEMPLATE, "spec": {**TEMPLATE["spec"], "suspend": False}})
    site = Site(api, reset_job="reset")
    view = await site.reader.read("n")
    with pytest.raises(ConfigurationError, match="suspend"):
        await site.applier.carry_out(view, (CreateJob("accelkit-reset-0123456789abcdef", "GPU-0", "Xid79"),))


@pytest.mark.parametrize(
    ("status", "result"), [(429, "refused"), (500, "refused"), (403, "failed"), (404, "gone"), (409, "gone")]
)
async def test_eviction_refused_by_disruption_budget_does_not_abort_pass(api, status, result):
    api.put_node("n")
    site = Site(api)
    api.fail(ApiError("no", status=status), "POST", "/eviction")
    view = await site.reader.read("n")
    await site.applier.carry_out(view, (Evict(PodRef("a", "p", "u"), "GPU-0"), NodeEvent("Told", "so")))
    text = site.metrics.render().decode()
    assert f'accelkit_remediation_actions_total{{action="evict",result="{result}"}} 1.0' in text


async def test_node_that_refuses_writes_does_not_block_other_nodes(api):
    for name in ("m", "n"):
        api.put_node(name)
        api.fail_card(name, "GPU-0", **DRAIN)
    api.fail(ApiError("etcdserver: request is too large", status=500), "PATCH", "/nodes/m", times=None)
    site = Site(api)
    await site.run_pass()
    recorded = [name for name in ("m", "n") if "accelkit.io/remediation" in str(api.objects[f"{NODES}/{name}"])]
    assert recorded == ["n"]
    assert b'accelkit_remediation_held_nodes{reason="Refused"} 1.0' in site.metrics.render()


async def test_replica_that_lost_leadership_writes_nothing(api):
    api.put_node("n")
    site = Site(api)
    view = await site.reader.read("n")
    site.leads = False
    with pytest.raises(NotLeadingError):
        await site.applier.carry_out(
            view, (WriteCondition("Xid79", "accelkit: x"), PodEvent(PodRef("a", "p", "u"), ""))
        )
    assert api.writes == []


async def test_lost_response_counts_node_and_next_pass_continues(api):
    for name in ("m", "n"):
        api.put_node(name, make_card("GPU-0"))
        api.fail_card(name, "GPU-0", **DRAIN)
    site = Site(api, max_unavailable=0.5)
    api.fail(ApiError("no answer"), "PATCH", "/nodes/m", answered=True)
    with pytest.raises(ApiError, match="no answer"):
        await site.run_pass()
    site.seen.replace([])
    await site.run_pass(3)
    recorded = [name for name in ("m", "n") if "accelkit.io/remediation" in str(api.objects[f"{NODES}/{name}"])]
    assert recorded == ["m"]


async def test_undo_restores_recorded_nodes_and_check_mode_lists_them(api):
    nodes = {name: api.put_node(name) for name in ("m", "n")}
    nodes["n"]["spec"]["taints"] = [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]
    before = {name: strip(node) for name, node in nodes.items()}
    api.fail_card("n", "GPU-0", **DRAIN)
    await Site(api).run_pass()
    assert strip(api.objects[f"{NODES}/n"]) != before["n"]
    assert await undo_all(api, dry_run=True) == ["n"]
    assert strip(api.objects[f"{NODES}/n"]) != before["n"]
    api.fail(ApiError("the resourceVersion is 1", status=409, reason="Conflict"), "PATCH", "/nodes/n")
    assert await undo_all(api) == ["n"]
    assert {name: strip(api.objects[f"{NODES}/{name}"]) for name in nodes} == before
    assert await undo_all(api) == []


async def test_undo_continues_after_refusal_and_skips_missing_nodes(api):
    before = {name: strip(api.put_node(name)) for name in ("a", "b", "n")}
    for name in before:
        api.fail_card(name, "GPU-0", **DRAIN)
    await Site(api).run_pass()
    api.fail(ApiError("no", status=422), "PATCH", "/nodes/a")
    api.fail(ApiError("gone", status=404), "PATCH", "/nodes/b")
    with pytest.raises(ApiError, match=r"cannot undo the remediation of node a \(no\)"):
        await undo_all(api)
    assert strip(api.objects[f"{NODES}/n"]) == before["n"]
    api.fail(ApiError("no answer"), "PATCH", "/nodes/a")
    with pytest.raises(ApiError, match="no answer"):
        await undo_all(api)


async def test_undo_reports_unreadable_record_and_restores_other_nodes(api):
    before = strip(api.put_node("n"))
    api.fail_card("n", "GPU-0", **DRAIN)
    await Site(api).run_pass()
    api.put_node("a", remediation='{"version":9}')
    with pytest.raises(ApiError, match=r"remediation record of node a;.*manually"):
        await undo_all(api)
    assert strip(api.objects[f"{NODES}/n"]) == before
