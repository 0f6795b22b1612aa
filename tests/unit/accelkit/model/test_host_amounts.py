"""What pods take of hosts, as kube-scheduler counts it."""

import math

import pytest

from accelkit.model.host_amounts import HostAmounts, read_node_amounts, read_pod_amounts, write_amounts
from accelkit.model.pod import Container, PodSpec, Resources


def container(cpu=None, memory=None, restart_policy=None):
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return Container("c", Resources(requests=requests or None), restart_policy)


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        (PodSpec([container("1", "1Gi"), container("500m")]), (1500, 2**30)),
        (PodSpec([container("1")], [container("4")]), (4000, 0)),
        (PodSpec([container("3")], [container("2"), container("2")]), (3000, 0)),
        # A sidecar runs beside what comes after it.
        (PodSpec([container("3")], [container("1", restart_policy="Always"), container("2")]), (4000, 0)),
        (PodSpec([container("1")], [container("1", restart_policy="Always"), container("4")]), (5000, 0)),
        (PodSpec([container("1")], [container("4"), container("1", restart_policy="Always")]), (4000, 0)),
        (PodSpec([container("1")], overhead={"cpu": "250m", "memory": 120}), (1250, 120)),
        (PodSpec([container("0.1"), container(2)]), (2100, 0)),
        (PodSpec([container()]), (0, 0)),
        (PodSpec([container("1"), container("much")]), (1000, 0)),
        (PodSpec([container("9223372036854775807"), container("1")]), (1000, 0)),
    ],
)
def test_container_requests_are_summed_like_kube_scheduler(spec, amounts):
    assert read_pod_amounts(spec) == amounts


def test_written_pod_amounts_are_read_back():
    amounts = HostAmounts(1500, 2**30)
    assert read_pod_amounts(PodSpec(overhead=write_amounts(amounts))) == amounts


def test_missing_or_invalid_node_amounts_are_unlimited():
    assert read_node_amounts({"cpu": "15890m", "memory": "64Gi", "pods": "110"}) == (15890, 64 * 2**30)
    assert read_node_amounts({"cpu": "4"}) == (4000, math.inf)
    assert read_node_amounts(None) == (math.inf, math.inf)
    assert read_node_amounts({"cpu": "?"}) == (math.inf, math.inf)
