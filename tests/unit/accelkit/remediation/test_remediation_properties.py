"""Whatever fails, and wherever the service is killed, a node is in the end as it would be without us."""

import asyncio
from copy import deepcopy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remediation_cluster import SimCluster, make_taint

from accelkit.model.keys import CORDON_KEY, UNHEALTHY_TAINT
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.deciding.views import JobState

SIZES = (1, 2, 3, 2)
FAULTS = ("xid 79 at 1.0", "xid 54 at 1.0", "xid 64 at 2.0", "xid 48 at 2.0", "")
place = st.tuples(st.integers(0, 3), st.integers(0, 2)).map(lambda at: (f"n{at[0]}", f"GPU-{at[1] % SIZES[at[0]]}"))
event = st.one_of(
    st.tuples(st.just("fail"), place, st.sampled_from(FAULTS)),
    st.tuples(st.sampled_from(["mend", "unknown", "bind", "leave", "agent", "cordon", "taint"]), place, st.none()),
    st.tuples(st.just("job"), place, st.sampled_from([JobState.SUCCEEDED, JobState.FAILED])),
    st.tuples(st.just("pass"), place, st.one_of(st.none(), st.integers(0, 4))),
    st.tuples(st.just("pass"), place, st.one_of(st.none(), st.integers(0, 4))),
)


def interfere(node, kind):
    """Somebody else cordons a card, or taints the node."""
    if kind == "cordon":
        node.annotations[CORDON_KEY] = f"{text},9" if (text := node.annotations.get(CORDON_KEY)) else "9"
    else:
        theirs = [each for each in node.taints if each["key"] != UNHEALTHY_TAINT]
        node.taints = [*node.taints, make_taint(f"t{len(theirs)}")]
    node.version += 1


async def take_event(cluster, twin, kind, at, detail):
    name, card = at
    node, other = cluster.nodes[name], twin.nodes[name]
    if kind in {"cordon", "taint"}:
        for each in (node, other):
            interfere(each, kind)
    elif kind == "pass":
        await cluster.run_pass(after=100.0, writes=detail)
    elif kind == "fail":
        cluster.fail(name, card, fault=detail, reason=f"{detail} 7 errors")
    elif kind == "mend":
        cluster.mend(name, card)
    elif kind == "unknown":
        cluster.lose_sight(name, card)
    elif kind == "bind":
        cluster.bind(name, card, f"pod{len(node.pods)}")
    elif kind == "leave":
        node.pods.clear()
    elif kind == "agent":
        node.watched = not node.watched
    else:
        cluster.jobs = dict.fromkeys(cluster.jobs, detail)


async def play(events, *, mode=Mode.ON, reset_job="reset"):
    chosen = RemediationSettings(mode=mode, reset_job=reset_job, max_unavailable=0.5, trip_share=1.0)
    cluster, twin = SimCluster(SIZES, chosen), SimCluster(SIZES, chosen)
    for kind, at, detail in events:
        before = deepcopy({name: node.state for name, node in cluster.nodes.items()})
        await take_event(cluster, twin, kind, at, detail)
        assert cluster.under <= chosen.count_allowed(len(SIZES))
        if kind == "pass" and detail == 0:
            assert before == {name: node.state for name, node in cluster.nodes.items()}
    return cluster, twin


async def mend_all(cluster):
    for node in cluster.nodes.values():
        node.watched = True
        for card in node.cards:
            cluster.mend(node.name, card)
        # The agents take away what they were told.
        node.annotations.pop("accelkit.io/mended", None)
    await cluster.run_passes(6, after=700.0)


@given(st.lists(event, max_size=40), st.sampled_from(["reset", ""]))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_repaired_node_equals_node_without_remediation(events, reset_job):
    async def run():
        cluster, twin = await play(events, reset_job=reset_job)
        await mend_all(cluster)
        for name, node in cluster.nodes.items():
            assert node.state == twin.nodes[name].state

    asyncio.run(run())


@given(st.lists(event, max_size=25))
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_dry_run_changes_no_node_and_no_pod(events):
    async def run():
        cluster, twin = await play([each for each in events if each[0] != "leave"], mode=Mode.DRY_RUN)
        for name, node in cluster.nodes.items():
            assert node.state == twin.nodes[name].state
            assert UNHEALTHY_TAINT not in {each["key"] for each in node.taints}

    asyncio.run(run())
