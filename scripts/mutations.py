"""Small changes to a Python file, each of which a test should notice.

Left alone is what no test should fix: docstrings, log and message texts, annotations, decorators, `__repr__`, the
lengths of waits, and the sizes that a constant names. Strings with a blank in them count as texts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_TEXTS = ("help", "next_step", "description", "timeout")
# Smaller numbers are as likely exit statuses or versions.
_LARGEST_CODE = 9
_LOGGERS = ("log", "logger", "logging")


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file; `start` and `end` are offsets in its bytes."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """Return the file's bytes with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_one_line(self.before)}  ->  {_one_line(self.after)}"


def find_mutants(path: Path, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    for node, after in _changes(ast.parse(source)):
        assert isinstance(node, ast.expr | ast.stmt)  # noqa: S101 - only these are changed
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - parsed from text
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        found.add(Mutant(path, node.lineno, start, end, source[start:end].decode(), after))
    return sorted(found)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield nodes, each with the text that replaces it."""
    if isinstance(tree, ast.expr):
        for changed in _changed_expressions(tree):
            yield tree, f"({ast.unparse(changed)})"
    elif isinstance(tree, ast.stmt):
        for text in _changed_statements(tree):
            yield tree, text
    for child in _tested_children(tree):
        yield from _changes(child)


def _changed_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                operators = [*node.ops[:index], _COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
                yield ast.Compare(node.left, operators, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Constant(value=str(text)) if not any(each.isspace() for each in text):
            yield ast.Constant(text + "x")
        case ast.Constant(value=bytes(text)) if b" " not in text:
            yield ast.Constant(text + b"x")


def _changed_statements(node: ast.stmt) -> Iterator[str]:
    match node:
        # None is as false as False: a truth value is changed to the other one only.
        case ast.Return(value=ast.Constant(value=bool() | None)):
            return
        case ast.Return(value=ast.expr()):
            yield "return None"
        case ast.Raise() | ast.AugAssign() | ast.Delete() | ast.Continue() | ast.Break():
            yield "pass"
        case ast.Expr(value=ast.Call() | ast.Await()) if not _is_log(node.value):
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "pass"


def _tested_children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that tests should hold to account."""
    match node:
        # Positions inside f-strings are wrong before Python 3.12; most of them are messages.
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Call(func=ast.Name(id="TypeVar")):
            return
        case ast.Expr(value=value) if isinstance(value, ast.Constant) or _is_log(value):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case (
            ast.AnnAssign(target=ast.Name(id=name), value=value) | ast.Assign(targets=[ast.Name(id=name)], value=value)
        ) if _is_left_alone(name, value):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from [*_tested_defaults(node.args), *node.body]
        case ast.ClassDef():
            yield from (each for each in node.body if getattr(each, "name", "") != "__repr__")
        case ast.AnnAssign():
            yield from [node.value] if node.value is not None else []
        case ast.Raise():
            # The message of an error is for people; its other arguments are not.
            yield from (child for child in ast.walk(node) if isinstance(child, ast.Compare | ast.BoolOp))
        case ast.Call():
            yield from [node.func, *node.args]
            yield from (each.value for each in node.keywords if each.arg not in _TEXTS)
        case _:
            yield from ast.iter_child_nodes(node)


def _tested_defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    """Yield the defaults of parameters, but not the lengths of waits."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(positional[::-1], arguments.defaults[::-1], strict=False)
    for argument, default in (*pairs, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
        if default is not None and "seconds" not in argument.arg:
            yield default


def _is_log(node: ast.AST) -> bool:
    if isinstance(node, ast.Await):
        return _is_log(node.value)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id.lstrip("_") in _LOGGERS
    )


def _is_left_alone(name: str, value: ast.expr | None) -> bool:
    """Return whether a variable lists the exported names, or is the length of a wait or a size."""
    return name == "__all__" or (name.isupper() and ("SECONDS" in name or _is_size(value)))


def _is_size(node: ast.expr | None) -> bool:
    """Return whether an expression is a number that may change by one: a limit, a buffer, a width."""
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_size(left) or _is_size(right)
        case ast.Constant(value=int() | float() as number):
            return number > _LARGEST_CODE
        case _:
            return False


def _one_line(text: str) -> str:
    return " ".join(text.split())
