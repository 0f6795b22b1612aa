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
def test_events_pass_in_order_without_a_fault(size):
    assert run(["a", "b", "a"], size=size) == ["a", "b", "a"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_each_event_is_sent_twice(size):
    assert run(["a", "b", "v/BOOKMARK"], repeats=True, size=size) == ["a", "a", "b", "b", "v"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_of_different_objects_change_places(size):
    assert run(["a", "b", "c", "d", "e"], swaps=True, size=size) == ["b", "a", "d", "c", "e"]


def test_events_of_one_object_stay_in_order():
    names = run(["a/ADDED", "a/MODIFIED", "b", "b/DELETED", "a"], swaps=True)
    assert names == ["a", "b", "a", "a", "b"]


def test_everything_before_a_bookmark_arrives_before_it():
    assert run(["a", "v/BOOKMARK", "b", "c"], swaps=True) == ["a", "v", "c", "b"]


def test_event_that_waits_can_be_passed_on():
    stream = EventStream(repeats=False, swaps=True)
    assert stream.feed(HEAD + chunk(event("a"))) == HEAD
    assert stream.holds
    assert read_names(stream.flush()) == ["a"]
    assert not stream.holds
    assert stream.flush() == b""


def test_line_in_several_chunks_and_several_lines_in_one():
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
def test_other_answers_pass_unchanged(answer):
    stream = EventStream(repeats=True, swaps=True)
    assert stream.feed(answer[:10]) + stream.feed(answer[10:]) + stream.feed(b"more") == answer + b"more"
