import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import unit_check

from accelkit.install.unit_change import UnitChange
from accelkit.install.workloads import Workload

GIB = 2**30
WEB = Workload("d", "Deployment", "web", (("c", "8"),))


@pytest.fixture
def found(stub):
    """Let this become of the unit; return what was asked."""
    nothing = {"before": [GIB], "refusals": {}, "finer": [], "waiting": [], "workloads": []}
    return lambda **change: stub(unit_check, "plan_unit_change", UnitChange(**{**nothing, **change}))


def test_valid_unit_is_returned_in_bytes(run_module, found):
    found(finer=["n"])
    answer = run_module(unit_check, {"unit": "0.1GB"})
    assert (answer["changed"], answer["unit_bytes"], answer["finer"]) == (False, 10**8, ["n"])


@pytest.mark.parametrize(("former", "size"), [("", None), ("0.1GiB", 107_374_182)])
def test_former_unit_is_passed_in_bytes(run_module, found, former, size):
    asked = found()
    run_module(unit_check, {"unit": "0.1GB", "former_unit": former})
    assert asked == [((10**8, ["accelkit.io/memory"]), {"former_unit_bytes": size})]


def test_nodes_that_cannot_use_unit_are_listed(run_module, found):
    found(refusals={"a": "too much", "b": "far too much"})
    answer = run_module(unit_check, {"unit": "0.1GB", "accept_change": True})
    assert answer["msg"] == "the unit 0.1GB is too small for these nodes: a: too much; b: far too much"


@pytest.mark.parametrize("check", [False, True])
def test_changed_meaning_of_workload_requests_must_be_accepted(run_module, found, check):
    found(workloads=[WEB])
    answer = run_module(unit_check, {"unit": "100MB"}, check=check)
    assert answer["failed"]
    assert "the requests of 1 workload mean another amount: " in answer["msg"]
    assert "Deployment d/web: c requests 8: 8 GiB until now, 800 MB in units of 0.1GB; rewrite" in answer["msg"]
    accepted = run_module(unit_check, {"unit": "100MB", "accept_change": True}, check=check)
    assert accepted["workloads"] == answer["workloads"]
    assert "failed" not in accepted


@pytest.mark.usefixtures("kubeconfig")
def test_invalid_unit_is_rejected_with_choices(run_module):
    answer = run_module(unit_check, {"unit": "3GiB"})
    assert answer["msg"].startswith("'3GiB' is not a unit of memory; choose one of 1GiB, 1GB, 512MiB")
