import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from mutations import find_mutants


def changes(source):
    return [(each.line, each.before, each.after) for each in find_mutants(Path("m.py"), source.encode())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", [(1, "a < b", "(a <= b)")]),
        ("a and not b", [(1, "a and not b", "(a or not b)"), (1, "not b", "(b)")]),
        ("n = 30", [(1, "30", "(31)")]),
        ("_EXIT = 3", [(1, "3", "(4)")]),
        ("ä = 'key'", [(1, "'key'", "('keyx')")]),
        ("drop(it)", [(1, "drop(it)", "pass")]),
        ("self.n = it", [(1, "self.n = it", "pass")]),
        ("def f(a, b=3): pass", [(1, "3", "(4)")]),
        ("def f(*, b=3, c): pass", [(1, "3", "(4)")]),
        ("def f():\n    return it", [(2, "return it", "return None")]),
        ("def f():\n    return False", [(2, "False", "(True)")]),
    ],
)
def test_find_mutants_returns_expected_changes(source, expected):
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "log.info('read %d', 3)",
        "raise Wrong('no key', 3)",
        "n: Literal[3]",
        "_WAIT_SECONDS = 3",
        "_BUFFER = 1 << 20",
        "T = TypeVar('T')",
        "def f(wait_seconds=3, *, seconds=4): pass",
        "@dataclass(frozen=True)\nclass C:\n    def __repr__(self): return 'c' + self.n",
        "ask(help='Waits long.', timeout=3)",
    ],
)
def test_find_mutants_skips_texts_and_tuning_constants(source):
    # A whole statement may still be dropped.
    assert [each for each in changes(source) if each[2] != "pass"] == []


def test_each_mutant_of_real_file_is_valid_and_different():
    path = Path(__file__).parents[2] / "src/accelkit/errors.py"
    source = path.read_bytes()
    mutants = find_mutants(path, source)
    assert mutants
    for each in mutants:
        changed = each.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), str(each)
