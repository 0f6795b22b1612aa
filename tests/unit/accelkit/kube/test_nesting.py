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
def test_fields_beside_a_value_of_many_levels_are_read(nested):
    with pytest.raises(RecursionError):
        _note.decode(note(nested))
    assert decode(_note, note(nested)).name == "n"


def test_a_value_that_is_kept_as_text_has_no_more_levels(monkeypatch):
    monkeypatch.setattr(nesting, "_LEVELS", 4)
    text = f'{{"name":"n","more":[{nest(LEVELS)},[[]],[{{"a":{{"b":[]}}}},{{"c":"]"}}],7]}}'.encode()
    found = decode(_note, text)
    assert json.loads(bytes(found.more)) == [{"f:a": {"f:a": None}}, [[]], [{"a": None}, {"c": "]"}], 7]


def test_values_of_few_levels_are_as_they_were():
    text = note(nest(50))
    assert decode(_note, text) == _note.decode(text)


@pytest.mark.parametrize("end", ["", "}" * (LEVELS - 1), "]" * LEVELS, "}" * (LEVELS + 5)])
def test_what_is_no_json_stays_an_error(end):
    with pytest.raises(msgspec.MsgspecError):
        decode(_note, ('{"other":' + '{"f:a":' * LEVELS + "1" + end).encode())
