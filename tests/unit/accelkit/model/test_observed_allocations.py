import pytest

from accelkit.model.observed_allocations import (
    Allocations,
    HeldDevices,
    HeldPod,
    decode_allocations,
    encode_allocations,
    fit_allocations,
)


def pod(name, containers=1):
    return HeldPod("d", name, {f"c{number}": HeldDevices({"GPU-1": 1}) for number in range(containers)})


def test_allocations_of_full_node_fit_size_limit():
    pods = tuple(
        HeldPod("tenant", f"p{n}", {f"{c:03d}{'c' * 60}": HeldDevices({"GPU-" + "0" * 36: 1}) for c in range(128)})
        for n in range(80)
    )
    fitting = fit_allocations(Allocations("n", pods))
    text = encode_allocations(fitting)
    assert len(text) <= 1_000_000
    assert len(fitting.pods) + fitting.left_out == 80
    assert 0 < fitting.left_out < 30
    assert decode_allocations(text) == fitting


@pytest.mark.parametrize("most_bytes", range(150, 600, 7))
def test_longest_pods_are_left_out_and_order_is_kept(most_bytes):
    everything = Allocations("n", (pod("a", 9), pod("b"), pod("c", 2), pod("d")))
    fitting = fit_allocations(everything, most_bytes)
    assert len(encode_allocations(fitting)) <= most_bytes
    names = [each.name for each in fitting.pods]
    shortest_first = ["b", "d", "c", "a"]
    assert names == sorted(shortest_first[: len(names)])
    assert fitting.left_out == 4 - len(names)


def test_no_pod_is_left_out_below_size_limit():
    everything = Allocations("n", (pod("a", 9), pod("b")))
    assert fit_allocations(everything) is everything
    assert fit_allocations(everything, len(encode_allocations(everything))) is everything
