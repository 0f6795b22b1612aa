"""Each fault that happens on the way ends as its own cell of the report, and leaves the other node's row as it was.

`accelkit verify` itself is run, and reads over HTTP what an API server would show after the fault.
"""

import asyncio
import json

import pytest
from click.testing import CliRunner
from http_service import ServedApi

from accelkit.cli import main
from accelkit.errors import ApiError
from accelkit.model.card import Health
from accelkit.model.keys import DRIVER_KERNEL_LABEL, STAGES_ANNOTATION
from accelkit.model.stage import NEEDS, Stage


def lose_driver(node):
    node.change_card(health=Health.UNHEALTHY, health_reason="the driver nvidia is no longer bound to the card")


def start_another_kernel(node):
    node.labels[DRIVER_KERNEL_LABEL] = node.info["kernelVersion"]
    node.info["kernelVersion"] = "6.8.0-99"


def crash_plugin(node):
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    node.wait(restartCount=4, state=waits, lastState=ended)
    # The kubelet keeps the capacity of a plug-in that has gone.
    node.allocatable = dict.fromkeys(node.allocatable, "0")


def lose_card(node):
    node.change_card(1, health=Health.UNHEALTHY, health_reason="the card is gone from the PCI bus")


def forget_card(node):
    """The agent starts anew after a card was lost, so that it knows nothing of it; a vendor's tool counts it still."""
    node.annotations["accelkit.io/labels"] = '{"accelkit.io/cards.count":"1"}'
    node.labels["accelkit.io/cards.count"] = "1"
    node.checked_in = node.state
    del node.cards[1]


def take_card_out(node):
    """The same, and nobody else counts cards."""
    forget_card(node)
    del node.labels["nvidia.com/gpu.count"]


def remove_label(node):
    del node.labels["accelkit.io/cards.count"]


def reboot(node):
    node.checked_in = node.state
    node.info["bootID"] = "boot-2"


def go_down(node):
    node.conditions[:] = [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]


def replace(node):
    """The autoscaler's node has the name of the former one, and nothing that was written on that."""
    node.info["bootID"] = "boot-of-another-machine"
    node.annotations[STAGES_ANNOTATION] = None


def replace_before_its_agent_runs(node):
    replace(node)
    node.annotations |= {"accelkit.io/inventory": None, "accelkit.io/labels": None}
    node.pods.clear()


FAULTS = [
    pytest.param(lose_driver, ("driver", "fail", "DriverMissing"), 4, id="driver missing"),
    pytest.param(start_another_kernel, ("driver-check", "fail", "KernelDriverMismatch"), 4, id="wrong kernel"),
    pytest.param(crash_plugin, ("device-plugin", "fail", "AgentCrashes"), 4, id="plug-in crash"),
    pytest.param(lose_card, ("driver-check", "fail", "CardLost"), 4, id="card lost"),
    pytest.param(forget_card, ("discover", "fail", "CardsMissing"), 4, id="card lost, agent started anew"),
    pytest.param(take_card_out, ("plugin-check", "stale", "StateChanged"), 3, id="card lost between stages"),
    pytest.param(remove_label, ("feature-labels", "fail", "LabelMissing"), 4, id="label removed"),
    pytest.param(go_down, ("discover", "unknown", "NodeNotReady"), 3, id="node down"),
    pytest.param(reboot, ("plugin-check", "stale", "StateChanged"), 3, id="node rebooted in the middle"),
    pytest.param(replace, ("plugin-check", "unknown", "NeverChecked"), 3, id="node replaced"),
    pytest.param(
        replace_before_its_agent_runs, ("discover", "unknown", "InventoryMissing"), 3, id="node replaced, agent to come"
    ),
]


@pytest.fixture
def cluster(enabled):
    """The node of a fault, and one that has none."""
    return enabled("n", "sound")


@pytest.fixture
def verify(cluster, tmp_path):
    """Run the command; what contains `away` is a path of which the API server does not answer."""

    async def run(*arguments, away=None):
        api = cluster.serve(ServedApi())
        if away is not None:
            api.fail(ApiError("no answer"), path=away, times=None)
        async with api.served(tmp_path) as kubeconfig:
            options = ["verify", "--kubeconfig", str(kubeconfig), *arguments]
            result = await asyncio.to_thread(CliRunner().invoke, main, options, catch_exceptions=False)
        # A token with which the extender's ledger is read is stored nowhere.
        assert {request.path.rpartition("/")[2] for request in api.writes} <= {"token"}
        return result

    return run


def read_cells(result, name):
    (node,) = (each for each in json.loads(result.stdout)["nodes"] if each["name"] == name)
    return {cell["stage"]: cell for cell in node["stages"]}


def find_first(cells):
    """The first stage that neither passed nor was left out; None for none."""
    return next((cell for cell in cells.values() if cell["outcome"] not in ("pass", "skipped")), None)


@pytest.mark.parametrize(("happen", "told", "exit_code"), FAULTS)
async def test_each_fault_is_reported_in_its_stage(cluster, verify, happen, told, exit_code):
    happen(cluster["n"])
    result = await verify("-o", "json")
    assert result.exit_code == exit_code
    cells = read_cells(result, "n")
    cell = find_first(cells)
    assert (cell["stage"], cell["outcome"], cell["reason"]) == told
    assert cell["evidence"]
    assert cell["next_action"]
    # What needs it is left out because of it, and nothing else is wrong.
    stage = cell["stage"]
    left_out = {name for name, each in cells.items() if each["because"] == stage}
    assert left_out == {name for name in cells if Stage(stage) in find_needs(Stage(name))}
    assert {each["outcome"] for name, each in cells.items() if name not in (stage, *left_out)} <= {"pass", "skipped"}
    assert find_first(read_cells(result, "sound")) is None


def find_needs(stage):
    """All stages that one needs, and that those need."""
    return {each for need in NEEDS[stage] for each in (need, *find_needs(need))}


async def test_unavailable_api_server_is_not_reported_as_node_fault(verify):
    result = await verify("n", "sound", "-o", "json", away="/")
    assert result.exit_code == 3
    for name in ("n", "sound"):
        cell = find_first(read_cells(result, name))
        assert (cell["stage"], cell["outcome"], cell["reason"]) == ("discover", "unknown", "NodesUnread")
    result = await verify(away="/")
    assert (result.exit_code, result.stdout) == (1, "")


async def test_api_server_failure_during_run_leaves_remaining_stages_unknown(verify):
    result = await verify("-o", "json", away="/pods")
    assert result.exit_code == 3
    for name in ("n", "sound"):
        cell = find_first(read_cells(result, name))
        assert (cell["stage"], cell["outcome"], cell["reason"]) == ("device-plugin", "unknown", "PodsUnread")


async def test_removed_node_is_reported_only_if_named(cluster, verify):
    del cluster.nodes["n"]
    assert (await verify()).exit_code == 0
    result = await verify("n", "sound", "-o", "json")
    assert result.exit_code == 4
    assert find_first(read_cells(result, "n"))["reason"] == "NodeMissing"
    assert find_first(read_cells(result, "sound")) is None
