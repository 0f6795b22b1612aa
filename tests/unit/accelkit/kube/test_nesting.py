from __future__ import annotations

import json

import msgspec
import pytest

from accelkit.kube import nesting
from accelkit.kube.nesting import decode

# More levels than any version of Python decodes, and than the API server accepts.
LEVELS = 30_000


class Note(msgspec.Struct):
    name: str
    more: msgspec.Raw = msgspec.Raw(b"")


_note = msgspec.json.Decoder(Note)


def nest(levels: int, begin: str = '{"f:a":', end: str = "}") -> str:
    return begin * levels + "1" + end * levels


def note(nested: str) -> bytes:
    return f'{{"other":{nested},"name":"n"}}'.encode()


@pytest.mark.parametrize(
    "nested",
    [
        nest(LEVELS),
        nest(LEVELS, "[", "]"),
        nest(LEVELS, '{"f:{":'),
        nest(LEVELS, '{"\\"]}\\\\": ', " }"),
        nest(LEVELS, '{".":{},"f:a":[', ',"}"]}'),
        nest(LEVELS, '[{}, {"a":"[{","b":', '}, "é]\\\\"]'),
    ],
)
def test_fields_beside_deeply_nested_value_are_decoded(nested):
    with pytest.raises(RecursionError):
        _note.decode(note(nested))
    assert decode(_note, note(nested)).name == "n"


def test_deeply_nested_raw_value_is_truncated(monkeypatch):
    monkeypatch.setattr(nesting, "_LEVELS", 4)
    text = f'{{"name":"n","more":[{nest(LEVELS)},[[]],[{{"a":{{"b":[]}}}},{{"c":"]"}}],7]}}'.encode()
    found = decode(_note, text)
    assert json.loads(bytes(found.more)) == [{"f:a": {"f:a": None}}, [[]], [{"a": None}, {"c": "]"}], 7]


def test_shallow_values_are_unchanged():
    text = note(nest(50))
    assert decode(_note, text) == _note.decode(text)


@pytest.mark.parametrize("end", ["", "}" * (LEVELS - 1), "]" * LEVELS, "}" * (LEVELS + 5)])
def test_malformed_json_raises_error(end):
    with pytest.raises(msgspec.MsgspecError):
        decode(_note, ('{"other":' + '{"f:a":' * LEVELS + "1" + end).encode())
