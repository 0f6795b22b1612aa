"""Events are sent twice or change places, each of them arrives, and no other answer changes."""

import json

import pytest
from faults.events import EventStream

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def event(name, kind="MODIFIED"):
    return json.dumps({"type": kind, "object": {"metadata": {"namespace": "n", "name": name}}}).encode() + b"\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def read_names(data):
    """The names of the events in a stream that was passed on, which must be chunks with a line each."""
    names = []
    while data and data != END:
        size, _, rest = data.partition(b"\r\n")
        line, data = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        names.append(json.loads(line)["object"]["metadata"]["name"])
    return names


def run(names, *, repeats=False, swaps=False, size=10_000):
    stream = EventStream(repeats=repeats, swaps=swaps)
    data = HEAD + b"".join(chunk(event(*name.split("/"))) for name in names) + END
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert out.startswith(HEAD)
    assert out.endswith(END)
    return read_names(out.removeprefix(HEAD))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_are_forwarded_in_order_without_fault(size):
    assert run(["a", "b", "a"], size=size) == ["a", "b", "a"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_repeat_fault_sends_each_event_twice(size):
    assert run(["a", "b", "v/BOOKMARK"], repeats=True, size=size) == ["a", "a", "b", "b", "v"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_swap_fault_swaps_events_of_different_objects(size):
    assert run(["a", "b", "c", "d", "e"], swaps=True, size=size) == ["b", "a", "d", "c", "e"]


def test_swap_fault_preserves_order_of_events_of_one_object():
    names = run(["a/ADDED", "a/MODIFIED", "b", "b/DELETED", "a"], swaps=True)
    assert names == ["a", "b", "a", "a", "b"]


def test_swap_fault_sends_held_event_before_bookmark():
    assert run(["a", "v/BOOKMARK", "b", "c"], swaps=True) == ["a", "v", "c", "b"]


def test_flush_sends_held_event():
    stream = EventStream(repeats=False, swaps=True)
    assert stream.feed(HEAD + chunk(event("a"))) == HEAD
    assert stream.holds
    assert read_names(stream.flush()) == ["a"]
    assert not stream.holds
    assert stream.flush() == b""


def test_lines_across_chunks_and_chunks_of_several_lines_are_parsed():
    stream = EventStream(repeats=False, swaps=False)
    data = event("a") + event("b")
    out = stream.feed(HEAD + chunk(data[:20]) + chunk(data[20:]))
    assert read_names(out.removeprefix(HEAD)) == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        HEAD.replace(b"application/json", b"application/vnd.kubernetes.protobuf;stream=watch") + b"2\r\nxx\r\n",
    ],
)
def test_responses_that_are_not_json_watches_are_forwarded_unchanged(answer):
    stream = EventStream(repeats=True, swaps=True)
    assert stream.feed(answer[:10]) + stream.feed(answer[10:]) + stream.feed(b"more") == answer + b"more"
