from ansible_collections.accelkit.kubernetes.plugins.modules import cluster_info

from accelkit.install.cluster import Cluster, ClusterNode


def test_cluster_info_returns_version_and_nodes(run_module, stub):
    node = ClusterNode("n", "192.0.2.1", control_plane=True)
    stub(cluster_info, "read_cluster", Cluster("https://a", "v1.34.4", (node,)))
    answer = run_module(cluster_info, {})
    assert (answer["changed"], answer["server"], answer["version"]) == (False, "https://a", "v1.34.4")
    assert answer["nodes"] == [{"name": "n", "address": "192.0.2.1", "control_plane": True}]


def test_unreachable_api_server_error_is_one_line(run_module, kubeconfig):
    answer = run_module(cluster_info, {"request_timeout": 2})
    assert answer["failed"]
    assert answer["msg"].startswith("GET http://127.0.0.1:9/version received no response: ")
    assert "\n" not in answer["msg"]
