import pytest

from accelkit.kube.paths import (
    build_collection_path,
    build_config_maps_path,
    build_group_path,
    build_leases_path,
    build_node_path,
    build_object_path,
    build_pod_path,
    build_secrets_path,
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (build_group_path("v1"), "/api/v1"),
        (build_group_path("apps/v1"), "/apis/apps/v1"),
        (build_collection_path("v1", "nodes"), "/api/v1/nodes"),
        (build_collection_path("apps/v1", "daemonsets"), "/apis/apps/v1/daemonsets"),
        (build_collection_path("apps/v1", "daemonsets", "d"), "/apis/apps/v1/namespaces/d/daemonsets"),
        (build_object_path(build_collection_path("v1", "services", "d"), "s"), "/api/v1/namespaces/d/services/s"),
        (build_node_path("n"), "/api/v1/nodes/n"),
        (build_pod_path("d", "p"), "/api/v1/namespaces/d/pods/p"),
        (build_config_maps_path("d"), "/api/v1/namespaces/d/configmaps"),
        (build_secrets_path("d"), "/api/v1/namespaces/d/secrets"),
        (build_leases_path("d"), "/apis/coordination.k8s.io/v1/namespaces/d/leases"),
    ],
)
def test_paths_match_kubernetes_api(path, expected):
    assert path == expected


def test_names_are_escaped_in_paths():
    assert build_pod_path("a/b", "../c?d") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd"


def test_colon_in_name_is_not_escaped():
    roles = build_collection_path("rbac.authorization.k8s.io/v1", "clusterroles")
    assert build_object_path(roles, "system:node").endswith("/clusterroles/system:node")
