"""bench/cache_delivery.py without a cluster: when a cache counts as delivered, what is compared, what is cleaned up."""

import importlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_api.server import FakeApi

from accelkit.gkm.conditions import Condition
from accelkit.gkm.objects import Cache, CacheMeta, CacheNode, CacheStatus, NodeCacheStatus, NodeStatus, ReportMeta

BENCH = Path(__file__).parents[2] / "bench"
READY = Condition("Ready", "True", "Ready")
NOT_YET = Condition("Ready", "False", "Pending")
NODES = ["one", "two"]


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def cache(name, *conditions, digest="sha256:a"):
    return Cache(CacheMeta(name=name), status=CacheStatus(resolved_digest=digest, conditions=[*conditions]))


def node(name, caches):
    """A node's report, of conditions by name and digest of a cache."""
    reports = {key: {"sha256:a": NodeCacheStatus(conditions=[each])} for key, each in caches.items()}
    return CacheNode(ReportMeta(name=name), NodeStatus(caches=reports))


def test_cache_is_delivered_when_cache_and_all_nodes_are_ready(load):
    watch = load("delivery_watch")

    def find(cache, reports):
        there = watch.find_on_nodes([cache], reports, NODES)
        return len(there), watch.find_ready(there)

    there = [node("one", {"c": READY}), node("two", {"c": READY})]
    assert find(cache("c", READY), there) == (1, {"c"})
    assert find(cache("c", NOT_YET), there) == (1, set())
    assert find(cache("c"), there) == (1, set())
    assert find(cache("c", READY), there[:1]) == (0, set())
    assert find(cache("c", READY), [there[0], node("two", {"c": NOT_YET})]) == (0, set())


def test_former_digest_on_node_does_not_count_as_delivered(load):
    there = [node(name, {"c": READY}) for name in NODES]
    assert load("delivery_watch").find_on_nodes([cache("c", READY, digest="sha256:b")], there, NODES) == []


@pytest.fixture
def cluster(load):
    watch = load("delivery_watch")
    api = FakeApi()
    return watch, api, watch.Cluster(api, NODES)


async def test_deliver_creates_caches_and_waits_until_ready(cluster):
    watch, api, measured = cluster
    status = {"resolvedDigest": "sha256:a", "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}
    for name in NODES:
        api.objects[f"{watch.NODES}/{name}"] = {
            "metadata": {"name": name, "namespace": watch.NAMESPACE},
            "status": {"caches": {"c": {"sha256:a": {"conditions": status["conditions"]}}}},
        }

    async def finish(request):
        if request.method == "POST" and request.path == watch.CACHES:
            api.objects[f"{watch.CACHES}/c"]["status"] = status

    api.after.append(finish)
    seconds = await measured.deliver({"c": "registry/bench/large@sha256:a"})
    assert 0 < seconds.on_nodes <= seconds.ready < 60
    assert api.objects[f"{watch.CACHES}/c"]["spec"] == {"image": "registry/bench/large@sha256:a"}
    await measured.remove(["c"])
    assert f"{watch.CACHES}/c" not in api.objects


async def test_deliver_reports_cache_that_does_not_become_ready(cluster, monkeypatch):
    watch, _, measured = cluster
    monkeypatch.setattr(watch, "DEADLINE_SECONDS", 0.1)
    with pytest.raises(SystemExit, match="1 caches are not ready: late"):
        await measured.deliver({"late": "image"})


async def test_clean_restores_initial_cluster_state(cluster):
    watch, api, measured = cluster
    before = {*api.objects}
    await measured.prepare("registry/bench/**", "a key")
    [policy] = [each for path, each in api.objects.items() if path.endswith(f"signerpolicies/{watch.POLICY}")]
    assert policy["spec"]["images"] == ["registry/bench/**"]
    # Again, after a run that was ended.
    await measured.prepare("registry/bench/**", "another key")
    await measured.clean()
    assert {path for path in api.objects if "configmaps" not in path} == before


async def test_run_job_waits_for_last_pod_and_deletes_job(cluster, load):
    watch, api, measured = cluster
    job = load("delivery_job").build_job("theirs", "image", NODES)

    async def finish(request):
        if request.method == "POST" and request.path == watch.JOBS:
            api.objects[f"{watch.JOBS}/theirs"]["status"] = {"succeeded": 2}

    api.after.append(finish)
    assert await measured.run_job(job) < 60
    assert api.objects == {}


def test_compare_seconds_returns_ratio_of_medians(load):
    held = [load("delivery_watch").Delivered(*each) for each in ((0.5, 5.5), (1.5, 6.5), (0.4, 5.4))]
    compared = load("cache_delivery").compare_seconds([2.0, 3.0, 9.0], [8.0, 6.0, 7.0], held)
    assert (compared["ours_s"], compared["job_s"]) == (3.0, 7.0)
    ratio, held = compared["job_to_ours"], compared["held_digest_s"]
    assert (ratio.figure, ratio.met, held.figure, held.met) == (2.33, True, 0.5, True)
    assert compared["held_digest_whole_cache_s"] == 5.5


def test_cache_agents_are_found_by_their_command_only(load, monkeypatch):
    watch = load("delivery_watch")

    def run_here(*command, stdin):
        assert command[:4] == ("docker", "exec", "--interactive", "node")
        return subprocess.run(["sh"], input=stdin, capture_output=True, timeout=60, check=True).stdout.decode()

    monkeypatch.setattr(watch, "run", run_here)
    # A name of its own, since other runs of this test may start one on this machine at the same time.
    agent = f"accelkit cache-stand-in-{os.getpid()}"
    monkeypatch.setattr(watch, "AGENT", agent)
    with pytest.raises(SystemExit, match="no node runs a cache agent"):
        watch.read_peaks(["node"])
    stand_in = subprocess.Popen([agent, "60"], executable=shutil.which("sleep"))
    try:
        watch.reset_peaks(["node"])
        assert [peak < 64 for peak in watch.read_peaks(["node"])] == [True]
    finally:
        stand_in.terminate()
        stand_in.wait(timeout=30)
