import json
from itertools import takewhile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from odd_manifests import CONFIGURATION, HOSTS, PLAIN, POLICY, indented_lists
from ruamel.yaml.error import YAMLError
from support.yaml import parse_yaml

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.document import Document

ODD = """\
%YAML 1.2
---
# about the first key
empty:   # nothing
plain:  over
  two lines
'quoted' : "a # no comment"   # a comment
tagged: !!str 5
folded: >-
    a

    b

kept: |+
  a

list:
-   name: x   # wide
    also: y
-
  name: apart
  # behind its last value

- first: 1
  # about the second
  second: 2
- {flow: 1, list: [a, 'b', {c: d}]}   # in braces
matrix: [[1, 2],   # first
  [3, 4]]
deep:
    deeper:
        deepest: 1   # far in
    other: ~
last: [a,
  b]

# the end
...
"""
DOCUMENTS = {
    "odd": ODD,
    "configuration": CONFIGURATION,
    "JSON": POLICY,
    "JSON in lines": json.dumps(parse_yaml(PLAIN), indent=2),
    "byte order mark": "\ufeff" + CONFIGURATION,
    "lists two columns deeper": indented_lists(PLAIN),
    **{name: host.manifest for name, host in HOSTS.items() if "1." not in name and "&" not in host.manifest},
}
MARK = "our value"


@st.composite
def documents(draw):
    """A document with comments and blank lines in odd places, ended in odd ways."""
    lines = DOCUMENTS[draw(st.sampled_from(sorted(DOCUMENTS)))].splitlines()
    for line in draw(st.lists(st.sampled_from(["# a comment", "", "      # indented", "   "]), max_size=3)):
        lines.insert(draw(st.integers(0, len(lines))), line)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join(lines) + draw(st.sampled_from(["", newline, newline * 2]))
    try:
        assume(isinstance(parse_yaml(text), dict))
    except (YAMLError, ValueError):
        assume(False)
    return text


def collections(value):
    """Return a mapping or list and all that it holds."""
    found = [value]
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            found += collections(each)
    return found


def lines_of(text):
    """Return the lines of a text, the last one ended as well."""
    newline = "\r\n" if "\r\n" in text else "\n"
    return (text if text.endswith("\n") else text + newline).splitlines(keepends=True)


def count_outside_one_run(before, after):
    """Return how many lines are the same before and behind the one run of lines in which two texts differ."""
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    rest = zip(reversed(before[start:]), reversed(after[start:]), strict=False)
    return start + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))


def put(collection, place):
    """Add a value of ours to a mapping, or to a list at a place."""
    if isinstance(collection, dict):
        collection["ours"] = {"name": MARK, "list": [1, {"a": "b"}]}
    else:
        collection.insert(place % (len(collection) + 1), {"name": MARK, "other": None})


def take_out(root):
    """Delete the value of ours, wherever it is."""
    for collection in collections(root):
        if isinstance(collection, dict):
            collection.pop("ours", None)
        else:
            collection[:] = [item for item in collection if not (isinstance(item, dict) and item.get("name") == MARK)]


@settings(max_examples=40)
@given(text=documents(), data=st.data(), place=st.integers(0, 9))
def test_insertion_leaves_other_lines_unchanged(text, data, place):
    document = Document(text, "the document")
    put(data.draw(st.sampled_from([each for each in collections(document.root) if each])), place)
    after = document.render()
    assert parse_yaml(after) == document.root
    # Inside braces and brackets it stands in the line of others.
    assert count_outside_one_run(lines_of(text), lines_of(after)) >= len(lines_of(text)) - 1


@settings(max_examples=40)
@given(text=documents(), data=st.data(), place=st.integers(0, 9))
def test_removing_insertion_restores_original_text(text, data, place):
    text = text.rstrip("\r\n") + ("\r\n" if "\r\n" in text else "\n")
    document = Document(text, "the document")
    put(data.draw(st.sampled_from([each for each in collections(document.root) if each])), place)
    again = Document(document.render(), "the document")
    take_out(again.root)
    assert again.render() == text


@settings(max_examples=40)
@given(text=documents(), data=st.data())
def test_replaced_value_changes_only_its_own_line(text, data):
    document = Document(text, "the document")
    places = [
        (each, key)
        for each in collections(document.root)
        for key in (each if isinstance(each, dict) else range(len(each)))
        if isinstance(each[key], str | int)
        and "\n" not in str(each[key])
        and each[key] not in {"over two lines", "a b"}
    ]
    collection, key = data.draw(st.sampled_from(places))
    collection[key] = MARK
    before, after = text.splitlines(keepends=True), document.render().splitlines(keepends=True)
    assert parse_yaml(document.render()) == document.root
    assert len(before) == len(after)
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert len(changed) == 1
    assert MARK in changed[0][1]
    assert changed[0][0].rpartition("#")[2].rstrip() in changed[0][1] or "#" not in changed[0][0]


@settings(max_examples=40)
@given(text=documents(), data=st.data())
def test_deletion_leaves_other_lines_unchanged(text, data):
    document = Document(text, "the document")
    collection = data.draw(st.sampled_from([each for each in collections(document.root) if len(each) > 1]))
    key = data.draw(st.sampled_from(list(collection) if isinstance(collection, dict) else range(len(collection))))
    del collection[key]
    after = document.render()
    assert parse_yaml(after) == document.root
    # What is left of the lines in which it stood, inside braces and brackets or behind a dash, is one line.
    assert count_outside_one_run(lines_of(text), lines_of(after)) >= len(lines_of(after)) - 1


def test_deleting_first_key_of_list_item_preserves_dash_and_comments():
    document = Document("a:\n- x: 1  # one\n  y: 2\n- x: 1\n  # about y\n  y: 2\n", "the document")
    for item in document.root["a"]:
        del item["x"]
    assert document.render() == "a:\n- y: 2\n- \n  # about y\n  y: 2\n"


def test_nested_list_on_dash_line_is_refused():
    document = Document("a:\n- - 1\n  - 2\n", "the document")
    document.root["a"][0].pop(0)
    with pytest.raises(ConfigurationError, match="cannot edit the document safely: its layout is not supported"):
        document.render()
