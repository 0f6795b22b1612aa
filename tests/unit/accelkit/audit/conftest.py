import pytest
from fake_api.server import FakeApi
from support.nodes import build_node
from support.pods import build_container, build_pod
from support.requests import build_inventory

from accelkit.kube.paths import NODES, PODS, build_config_maps_path, build_node_path
from accelkit.model.assignment import Share
from accelkit.model.observed_allocations import (
    ALLOCATIONS_KEY,
    ALLOCATIONS_LABELS,
    Allocations,
    HeldDevices,
    HeldPod,
    encode_allocations,
)

GIB = 2**30


class AuditedCluster(FakeApi):
    """Nodes with a card of 16 GiB each, of which a pod holds 4; what agents and kubelets say agrees with it.

    Args:
        cards: the name of the card, by node.
        pods: the name of the pod, by node.
        namespace: where the agents publish what the kubelets show.
    """

    def __init__(self, cards, pods, *, namespace="accelkit"):
        super().__init__()
        self.cards, self.namespace = cards, namespace
        for node, card in cards.items():
            self.store(NODES, build_node(node, build_inventory(card, memory=16 * GIB, unit_bytes=GIB)))
            self.configure(node)
        for node, pod in pods.items():
            self.put_pod(pod, node)
            self.observe(node, self.held(pod, node))

    def held(self, pod, node):
        """What a kubelet shows of a pod that holds 4 GiB of its node's card."""
        return HeldPod("d", pod, {"c": HeldDevices({self.cards[node]: 4})}, enforced_by="mps")

    def put_pod(self, name, node, phase="Running", resource="accelkit.io/memory"):
        shares = {"c": (Share(self.cards.get(node, "none"), 4 * GIB),)} if resource else None
        container = build_container({resource: "4"} if resource else {})
        status = {"phase": phase, "startTime": "now"}
        self.store(
            PODS, build_pod(name, container, assigned=shares, metadata={"uid": name}, status=status, nodeName=node)
        )

    def observe(self, node, *pods, namespace=None):
        text = encode_allocations(Allocations(node, pods, processes=()))
        self.put_config_map(node, {ALLOCATIONS_KEY: text}, namespace=namespace)

    def put_config_map(self, name, data, labels=ALLOCATIONS_LABELS, namespace=None):
        content = {} if data is None else {"data": data}
        collection = build_config_maps_path(namespace or self.namespace)
        self.store(collection, {"metadata": {"name": name, "labels": labels}, **content})

    def configure(self, node, **kubelet):
        self.documents[f"{build_node_path(node)}/proxy/configz"] = {"kubeletconfig": kubelet}

    @property
    def looks(self):
        """How often the cluster was looked at."""
        return sum(request.path == NODES for request in self.requests)


@pytest.fixture
def audited_cluster():
    """Make a cluster that agrees with itself."""
    return AuditedCluster
