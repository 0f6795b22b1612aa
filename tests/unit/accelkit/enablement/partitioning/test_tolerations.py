import msgspec
import pytest

from accelkit.enablement.ownership.objects import DaemonSet
from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.tolerations import find_intolerant
from accelkit.kube.views.scheduling import SchedulingPod

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
BEARS = [{"key": MEMORY, "operator": "Exists", "effect": "NoSchedule"}]
NODES = [msgspec.convert({"metadata": {"name": name, "labels": {"pool": name}}}, TaintedNode) for name in "ab"]


def daemon_set(**spec):
    return msgspec.convert(
        {"metadata": {"name": "d", "namespace": "n"}, "spec": {"template": {"spec": spec}}}, DaemonSet
    )


def pod(limits, *, phase="Running", **spec):
    container = {"name": "main", "resources": {"limits": limits}}
    metadata = {"name": "p", "namespace": "n"}
    whole = {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}
    return msgspec.convert(whole, SchedulingPod)


def find(*, daemon_sets=(), pods=(), keys=(MEMORY,)):
    found = find_intolerant(daemon_sets, pods, NODES, keys=keys, tainted={"a"}, resources={MEMORY, CARDS})
    return [str(each) for each in found]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, True),
        ({"tolerations": BEARS}, False),
        ({"tolerations": [{"operator": "Exists"}]}, False),
        ({"tolerations": [{"key": MEMORY, "operator": "Equal", "value": "accelkit"}]}, False),
        ({"tolerations": [{"key": MEMORY, "operator": "Equal", "value": "other"}]}, True),
        ({"tolerations": [{"key": MEMORY, "operator": "Exists", "effect": "NoExecute"}]}, True),
        # Its pods are on another node.
        ({"nodeSelector": {"pool": "b"}}, False),
        ({"nodeSelector": {"pool": "a"}}, True),
    ],
)
def test_daemon_sets_on_tainted_nodes_without_toleration_are_reported(spec, told):
    assert find(daemon_sets=[daemon_set(**spec)]) == (["DaemonSet n/d (accelkit.io/memory)"] if told else [])


@pytest.mark.parametrize(
    ("limits", "more", "told"),
    [
        ({MEMORY: "4"}, {}, True),
        ({MEMORY: "4"}, {"tolerations": BEARS}, False),
        ({CARDS: "1"}, {"phase": "Pending"}, True),
        ({CARDS: "1"}, {"phase": "Succeeded"}, False),
        ({MEMORY: "0"}, {}, False),
        ({"cpu": "1"}, {}, False),
    ],
)
def test_card_pods_without_toleration_are_reported(limits, more, told):
    assert find(pods=[pod(limits, **more)]) == (["Pod n/p (accelkit.io/memory)"] if told else [])


def test_each_taint_needs_its_own_toleration():
    spec = {"tolerations": BEARS}
    assert find(pods=[pod({MEMORY: 1}, **spec)], keys=(MEMORY, CARDS)) == ["Pod n/p (accelkit.io/cards)"]
