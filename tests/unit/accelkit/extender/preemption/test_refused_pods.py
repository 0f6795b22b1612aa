import msgspec
from evicting_cluster import Evicting

from accelkit.extender.preemption.refusals import DELAY_SECONDS, MOST_PODS
from accelkit.model.pod import Pod


def refuse(cluster, name, priority, namespace):
    """A pod that waits, and was refused on all nodes."""
    item = cluster.pod(name, 5, priority, namespace=namespace)
    cluster.refusals.note(msgspec.convert(item, Pod), ["n"])
    cluster.now += 0.001


def list_known(cluster):
    """The pods that are remembered."""
    return {name for name in cluster.namespaces if cluster.refusals.list_nodes(f"uid-{name}")}


def take_turns(cluster, count):
    """Which pods are looked after, one after the other."""
    taken = []
    for _ in range(count):
        uid = cluster.refusals.list_due(cluster.feed.pending, cluster.ledger)[0]
        cluster.refusals.note_turn(uid)
        cluster.refusals.discard(uid)
        taken.append(uid.removeprefix("uid-"))
    return taken


def test_refused_pods_over_the_limit_are_discarded_from_the_largest_namespace():
    cluster = Evicting()
    for number in range(MOST_PODS):
        refuse(cluster, f"many{number}", 10, "many")
    refuse(cluster, "one", 10, "few")
    for number in range(5):
        refuse(cluster, f"more{number}", 10, "many")
    known = list_known(cluster)
    assert len(known) == MOST_PODS
    # Of the own, those that are known longest are forgotten.
    assert {"one", "more0", "more4"} <= known
    assert known.isdisjoint({"many0", "many5"})


def test_lowest_priority_of_a_namespace_is_discarded_first():
    cluster = Evicting()
    refuse(cluster, "high", 20, "many")
    for number in range(MOST_PODS):
        refuse(cluster, f"many{number}", 10, "many")
    assert "high" in list_known(cluster)


def test_refused_pods_are_served_round_robin_by_namespace():
    cluster = Evicting()
    for number in range(4):
        refuse(cluster, f"a{number}", 20, "a")
    for number in range(2):
        refuse(cluster, f"b{number}", 10, "b")
    cluster.now += DELAY_SECONDS
    # At first the highest priority; then each namespace in its turn.
    assert take_turns(cluster, 3) == ["a0", "b0", "a1"]
    # Who comes later does not overtake those that wait.
    refuse(cluster, "c0", 30, "c")
    cluster.now += DELAY_SECONDS
    assert take_turns(cluster, 4) == ["b1", "c0", "a2", "a3"]


async def test_namespace_with_many_hopeless_pods_does_not_block_other_namespaces():
    cluster = Evicting("n", "m")
    for number in range(4):
        cluster.pod(f"low{number}", 8, 1 if number % 2 else 20, "ab"[number % 2], node="nm"[number // 2])
    # For the many there is no way: nobody on the cards that they want is below them.
    wanted = {"accelkit.io/request": '{"c": {"card_ids": ["a"]}}'}
    many = [cluster.pod(f"many{number}", 8, 11, namespace="many", annotations=wanted) for number in range(MOST_PODS)]
    few = cluster.pod("few", 8, 10, namespace="few")
    for pod in [*many, few]:
        await cluster.filter(pod)
    cluster.now += DELAY_SECONDS
    for _ in range(2):
        await cluster.evictor.run_once()
    assert len(cluster.evicted) == 1
