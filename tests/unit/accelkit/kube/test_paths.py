from __future__ import annotations

import pytest

from accelkit.kube.paths import collection, config_maps, group, leases, member, node_path, pod_path, secrets


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (group("v1"), "/api/v1"),
        (group("apps/v1"), "/apis/apps/v1"),
        (collection("v1", "nodes"), "/api/v1/nodes"),
        (collection("apps/v1", "daemonsets"), "/apis/apps/v1/daemonsets"),
        (collection("apps/v1", "daemonsets", "d"), "/apis/apps/v1/namespaces/d/daemonsets"),
        (member(collection("v1", "services", "d"), "s"), "/api/v1/namespaces/d/services/s"),
        (node_path("n"), "/api/v1/nodes/n"),
        (pod_path("d", "p"), "/api/v1/namespaces/d/pods/p"),
        (config_maps("d"), "/api/v1/namespaces/d/configmaps"),
        (secrets("d"), "/api/v1/namespaces/d/secrets"),
        (leases("d"), "/apis/coordination.k8s.io/v1/namespaces/d/leases"),
    ],
)
def test_paths_are_those_of_the_api(path, expected):
    assert path == expected


def test_names_cannot_lead_to_another_object():
    assert pod_path("a/b", "../c?d") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd"


def test_a_colon_of_a_name_stays():
    roles = collection("rbac.authorization.k8s.io/v1", "clusterroles")
    assert member(roles, "system:node").endswith("/clusterroles/system:node")
