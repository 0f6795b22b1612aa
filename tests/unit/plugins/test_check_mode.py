"""In check mode no module sends a request that changes anything, whatever there is to change."""

import asyncio
import importlib
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("fake_api.server")

from driver_nodes import KERNEL, OTHER, write_node
from fake_api.server import FakeApi

from accelkit.kube.paths import NODES

MODULES = Path(__file__).parents[3] / "plugins" / "modules"
# What these create is answered, and not kept.
ASKING = re.compile(r"selfsubjectaccessreviews|/token$")
DRIVERS = {"nvidia": {"version": "560", "image": "i:${KERNEL_FULL_VERSION}"}}
CARD = {"fault": "f", "reason": "Xid79", "step": "isolated", "since": 1.0, "step_since": 1.0}
# By a name, the module, and what would change something.
CHANGES = {
    "share": ("node_share", {"nodes": ["b"]}),
    "withdraw": ("node_share", {"state": "withdrawn", "grace_seconds": 0}),
    "unshare": ("node_share", {"state": "absent", "grace_seconds": 0, "confirm_seconds": 0}),
    "set apart": ("node_partition", {"taints": ["accelkit.io/memory"], "tainted": ["a"], "roles": {"x": ["a"]}}),
    "give back": ("node_partition", {"state": "absent"}),
    "drivers": ("driver_plan", {"state": "recorded", "mode": "container", "vendors": DRIVERS}),
    "no drivers": ("driver_plan", {"state": "absent"}),
    "cordon": ("node_cordon", {"state": "cordoned", "name": "a", "target": "560"}),
    "drain": ("node_drain", {"name": "a", "timeout": 1}),
    "check": ("stage_check", {"image": "i"}),
    "forget checks": ("stage_check", {"state": "absent"}),
    "prune": ("object_prune", {"component": "extender", "namespaces": ["accelkit"]}),
    "certificates": ("tls_authority", {"namespace": "accelkit", "names": ["accelkit-extender.accelkit.svc"]}),
    "record": ("managed_resources", {}),
    "forget record": ("managed_resources", {"state": "absent"}),
    "lift": ("remediation_undo", {}),
    "adopt": ("gcushare_adopt", {}),
}
# Of these there is nothing here; test_gcushare_adoption.py has it.
UNCHANGED = {"adopt"}
# They change nothing in any mode.
READING = {
    *("access_check", "cluster_info", "future_check", "memory_check", "memory_info", "node_owners", "openshift_info"),
    *("stage_report", "toleration_check", "unit_check"),
}
# Files and registries are theirs, and what they do in check mode is tested with these.
ELSEWHERE = {"cache", "example_manifests"}
# They wait for something that is under way, and ask for nothing in check mode.
WAITING = {"node_discover", "node_driver", "rollout_wait"}


@pytest.fixture
def api():
    found = FakeApi()
    found.documents["/version"] = {"gitVersion": "v1.34.4"}
    ours = {"accelkit.io/share": "true", "accelkit.io/cards.count": "1", "accelkit.io/role": "old"}
    recorded = {
        "accelkit.io/stages": json.dumps({"version": 1, "results": {}}),
        "accelkit.io/labels": json.dumps({"accelkit.io/cards.count": "1"}),
        "accelkit.io/partitioning": json.dumps({"version": 1, "labels": {"accelkit.io/role": "old"}}),
        "accelkit.io/remediation": json.dumps({"cards": {"c": CARD}}),
    }
    node = write_node("a", kernel=OTHER, recorded=KERNEL, labels=ours)
    node["metadata"]["annotations"].update(recorded)
    found.store(NODES, node)
    found.store(NODES, write_node("b"))
    labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/managed-by": "ansible"}
    labels["app.kubernetes.io/component"] = "extender"
    config_map = {"metadata": {"name": "left", "namespace": "accelkit", "uid": "1", "labels": labels}, "data": {}}
    found.store("/api/v1/namespaces/accelkit/configmaps", config_map)
    record = {"metadata": {"name": "accelkit-managed-resources", "namespace": "accelkit"}, "data": {}}
    found.store("/api/v1/namespaces/accelkit/configmaps", record)
    container = {"name": "main", "resources": {"limits": {"accelkit.io/cards": "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": {"containers": [container]}}
    pod["spec"]["nodeName"] = "a"
    found.store("/api/v1/pods", pod | {"status": {"phase": "Running"}})
    return found


@pytest.fixture
def run_checked(monkeypatch, run_module, kubeconfig, api):
    """Run a module in check mode against the cluster; returns its answer, and what it wrote."""

    def run(name, given):
        module = importlib.import_module(f"ansible_collections.accelkit.kubernetes.plugins.modules.{name}")
        monkeypatch.setattr(module, "call", lambda _module, function: asyncio.run(function(api)))
        answer = run_module(module, given, check=True)
        tried = [each for each in api.writes if not ASKING.search(each.path)]
        return answer, [(each.method, each.path) for each in tried if each.query.get("dryRun") != "All"]

    return run


@pytest.mark.parametrize("name", CHANGES)
def test_check_mode_reports_change_and_writes_nothing(run_checked, name):
    module, given = CHANGES[name]
    answer, written = run_checked(module, given)
    assert not answer.get("failed"), answer
    assert written == []
    assert answer["changed"] or name in UNCHANGED


def test_each_module_with_api_access_has_check_mode_test():
    speaking = {path.stem for path in MODULES.glob("*.py") if "module_utils._api import" in path.read_text()}
    assert speaking == {module for module, _given in CHANGES.values()} | READING | ELSEWHERE | WAITING
