from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import node_discover

from accelkit.install.node_discovery import DiscoveryPod


@pytest.fixture
def cluster(monkeypatch, kubeconfig):
    """A cluster with these unlabelled nodes, cards and problems; returns what the pods were made of."""
    asked = []

    def make(nodes, counts, problems):
        async def list_nodes(_api):
            return nodes

        async def find(_api, names, pod, *, seconds):
            asked.append((names, pod, seconds))
            return counts, problems

        monkeypatch.setattr(node_discover, "list_unlabelled", list_nodes)
        monkeypatch.setattr(node_discover, "find_cards", find)
        return asked

    return make


def test_nodes_with_cards_are_returned_and_what_is_not_known_is_told(run_module, cluster):
    asked = cluster(["a", "b", "c"], {"a": 2, "b": 0}, {"c": "its pod did not end in time"})
    answer = run_module(node_discover, {"image": "i", "simulated": True, "timeout": 7})
    assert (answer["nodes"], answer["looked_at"], answer["changed"]) == (["a"], ["a", "b", "c"], False)
    assert asked == [(["a", "b", "c"], DiscoveryPod("accelkit", "i", (), cards_file=True), 7)]
    assert answer["problems"] == {"c": "its pod did not end in time"}


def test_a_check_starts_no_pod(run_module, cluster):
    asked = cluster(["a"], {"a": 2}, {})
    assert run_module(node_discover, {"image": "i"}, check=True)["looked_at"] == []
    assert asked == []
