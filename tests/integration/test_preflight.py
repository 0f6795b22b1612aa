"""What stops an installation before it has changed anything, on a real API server."""

import json
import secrets

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAMESPACES = "/api/v1/namespaces"
NODE = "/api/v1/nodes/node-1"
OLD = {"device_plugin_kubernetes_version": "v1.29.3", "extender_kubernetes_version": "v1.29.3"}


def preflight(sandbox, **settings):
    """Run the checks; return what they say against the installation, empty where they pass."""
    done = sandbox.playbook("playbooks/preflight.yml", "-e", json.dumps(settings), check=False)
    return "" if done.returncode == 0 else done.stdout


def test_unbounded_rights_require_explicit_acceptance(control_plane):
    said = preflight(control_plane, **OLD)
    assert "Kubernetes v1.29.3 has no admission policies" in said
    assert "device_plugin_unbounded_rights: true" in said


def test_dialect_with_foreign_assignment_requires_named_writer(control_plane):
    said = preflight(control_plane, accelkit_dialects=["gcushare-2025"])
    assert "extender_assignment_writers is empty, but with the dialect gcushare-2025" in said


@pytest.fixture
async def theirs(api):
    """A namespace in which somebody else may create pods; of a new name each time, since a deleted one goes slowly."""
    name = f"theirs-{secrets.token_hex(4)}"
    place = f"{NAMESPACES}/{name}"
    await api.post(NAMESPACES, {"metadata": {"name": name}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
    binding = {"metadata": {"name": "mallory-edits"}, "roleRef": role, "subjects": [subject]}
    await api.post(f"/apis/rbac.authorization.k8s.io/v1{place.removeprefix('/api/v1')}/rolebindings", binding)
    yield name
    await api.delete(place)


@pytest.fixture
async def given_whole(api):
    """The sandbox's node while another device plugin gives its cards."""
    amounts = {"nvidia.com/gpu": "8"}
    await api.patch(f"{NODE}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    yield
    gone = dict.fromkeys(amounts)
    await api.patch(f"{NODE}/status", {"status": {"capacity": gone, "allocatable": gone}})


def test_namespace_with_foreign_objects_is_refused(control_plane, theirs):
    said = preflight(control_plane, accelkit_namespace=theirs)
    assert f"the namespace {theirs} was not created for accelkit and contains RoleBinding mallory-edits" in said


@pytest.mark.usefixtures("given_whole")
def test_node_with_another_device_plugin_is_refused(control_plane):
    said = preflight(control_plane, accelkit_shared_nodes=["node-1"])
    assert "nodes to share have another owner (NodeOwned: node-1:" in said
    assert "(nvidia.com/gpu: 8)" in said


@pytest.mark.usefixtures("given_whole")
async def test_preflight_passes_if_each_exception_is_accepted(control_plane, api, theirs):
    await api.patch(f"{NAMESPACES}/{theirs}", {"metadata": {"labels": {"app.kubernetes.io/part-of": "accelkit"}}})
    words = {"device_plugin_unbounded_rights": True, "node_labels_coexisting": ["node-1"]}
    place = {"accelkit_namespace": theirs, "accelkit_shared_nodes": ["node-1"], "accelkit_dialects": ["gas"]}
    assert preflight(control_plane, **OLD, **words, **place) == ""
