"""Types that threads may decode are prepared when their module is imported, see `accelkit.decoding`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import accelkit

SOURCES = Path(accelkit.__file__).parent
# The packages with code that runs in threads, and those below them that this code calls.
PACKAGES = ("cacheagent", "gkm", "kernelcache", "kube", "model", "node", "plugins", "scheduler", "vendors")
PREPARING = {"prepare", "msgspec.json.Decoder"}
DECODING = {"msgspec.json.decode", "msgspec.msgpack.decode", "msgspec.toml.decode", "msgspec.yaml.decode"}


def list_unprepared(text: str) -> Iterator[str]:
    """Yield `LINE: CALL` of each call that analyses a class; callers prepare parameters, which have lower case."""
    tree = ast.parse(text)
    statements = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign | ast.Expr)]
    prepared = {
        name
        for statement in statements
        for call in list_calls(statement, PREPARING)
        for each in call.args
        for name in list_classes(each)
    }
    for call in list_calls(tree, DECODING | {"msgspec.convert"}):
        types = [each.value for each in call.keywords if each.arg == "type"]
        if ast.unparse(call.func) == "msgspec.convert":
            missing = {name for each in (*types, *call.args[1:]) for name in list_classes(each)} - prepared
        else:
            missing = {name for each in types for name in list_classes(each)}
        if missing:
            yield f"{call.lineno}: {ast.unparse(call)}"


def list_calls(tree: ast.AST, functions: set[str]) -> Iterator[ast.Call]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and ast.unparse(each.func) in functions:
            yield each


def list_classes(expression: ast.expr) -> set[str]:
    names = {each.id for each in ast.walk(expression) if isinstance(each, ast.Name)}
    return {name for name in names if name.lstrip("_")[:1].isupper()}


def test_types_decoded_in_threads_are_prepared_at_import():
    files = [file for package in PACKAGES for file in sorted((SOURCES / package).rglob("*.py"))]
    found = [f"{file.relative_to(SOURCES)}:{each}" for file in files for each in list_unprepared(file.read_text())]
    assert not found, "make a msgspec.json.Decoder of the module, or call prepare(): " + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return msgspec.json.decode(x, type=T)",
        "def f(x): return msgspec.yaml.decode(x, type=list[_T])",
        "_t = msgspec.json.Decoder(T)\ndef f(x): return msgspec.json.decode(x, type=T)",
        "def f(x): return msgspec.convert(x, T)",
        "def f(x): return msgspec.convert(x, type=dict[str, T])",
        "prepare(U)\ndef f(x): return msgspec.convert(x, T)",
        "def f(x):\n    prepare(T)\n    return msgspec.convert(x, T)",
    ],
)
def test_unprepared_type_is_reported(text):
    assert len(list(list_unprepared(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "_t = msgspec.json.Decoder(T)\ndef f(x): return _t.decode(x)",
        "prepare(U, T)\ndef f(x): return msgspec.convert(x, tuple[T, ...])",
        "_t = msgspec.json.Decoder(T)\ndef f(x): return msgspec.convert(x, T)",
        "def f(x): return msgspec.convert(x, list[str])",
        "def f(x): return msgspec.json.decode(x)",
        "def f(x, type_): return msgspec.convert(x, type_)",
    ],
)
def test_prepared_type_is_not_reported(text):
    assert not list(list_unprepared(text))
