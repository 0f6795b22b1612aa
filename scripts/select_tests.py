"""Select the integration tests that cover what changed since a commit, by the import graph and the changed paths.

    python scripts/select_tests.py [COMMIT]      # prints the files of tests, one a line; `all` if it is unknown

The default is the commit that CI_MERGE_BASE names, or else the commit where HEAD left the main branch. It is unknown if
HEAD is on the main branch. Later commits, the working tree and untracked files count as changes.

A test covers a module of accelkit if the test imports it, directly or through other modules, or starts a command that
does. A test that runs playbooks covers roles, playbooks, plugins and inventories, and what these install. A test that
runs benchmarks covers them. If a changed path has no rule, all tests are selected.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import grimp
from git_history import list_merge_bases, run_git

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "src"))

from accelkit.cli import SERVICES, USER_COMMANDS  # noqa: E402 - found by the path above

SOURCE, TESTS, INTEGRATION = "src/accelkit", "tests", "tests/integration"
CONFTEST = REPOSITORY / INTEGRATION / "conftest.py"
# Lint and unit tests check all of these, whatever changed.
CHECKED_ALWAYS = ("docs/", "changelogs/", "README.md", "CONTRIBUTING.md", "LICENSE", "tests/unit/")
# Targets of their own run these on a cluster.
RUN_ELSEWHERE = ("extensions/", "tests/faults/", "scripts/e2e.py", "scripts/roads.py", "scripts/crowd.py")
# What playbooks are made of.
PLAYBOOKS = ("roles/", "playbooks/", "plugins/", "inventories/", "meta/", "site.yml", "galaxy.yml", "requirements.yml")
# A test that runs playbooks, or reads the files that they are made of, has one of these in its files.
BENCHMARKS = "bench/"
RUNS_PLAYBOOKS = re.compile(r"\.playbook\(|ansible-playbook|ansible_runner|ansible-galaxy")
READS_PLAYBOOKS = re.compile(r"/ \"(roles|playbooks|plugins|inventories)\b|\"(roles|playbooks|plugins|inventories)/")
# Fixtures of conftest.py on which a playbook has run.
INSTALLED_FIXTURES = frozenset({"installed", "cluster"})
# What runs in a cluster on which the playbooks have run.
INSTALLED_COMMANDS = ("extender", "node-agent")
# What the main branch is called in a clone, or in the repository of a developer.
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "main")


class UnknownSelectionError(Exception):
    """Which tests cover the change is not known; the text says why."""


@dataclass(frozen=True, slots=True)
class IntegrationTest:
    """What one file of integration tests uses.

    Attributes:
        path: from the repository.
        files: the Python files of tests that it imports, with itself.
        modules: the modules of accelkit that it imports, or that the commands are made of which it starts.
        playbooks: whether it runs playbooks, or reads the files that they are made of.
        benchmarks: whether it runs benchmarks.
    """

    path: str
    files: frozenset[str]
    modules: frozenset[str]
    playbooks: bool
    benchmarks: bool = False


@dataclass(frozen=True, slots=True)
class _PythonFile:
    """What one file of tests imports, says and defines."""

    text: str
    modules: frozenset[str]
    strings: frozenset[str]
    parameters: frozenset[str]
    functions: frozenset[str]


def select(changed: Iterable[str], tests: Iterable[IntegrationTest], graph: grimp.ImportGraph) -> list[str]:
    """Return the files of the tests that cover changed paths, sorted.

    Raises:
        UnknownSelectionError: a path has no rule.
    """
    tests = list(tests)
    modules, files, playbooks, benchmarks = set[str](), set[str](), False, False
    for path in changed:
        if path.startswith(f"{SOURCE}/"):
            modules |= find_affected(path, graph)
        elif path.startswith(PLAYBOOKS):
            playbooks = True
        elif path.startswith(BENCHMARKS):
            benchmarks = True
        elif any(path in test.files for test in tests):
            files.add(path)
        elif not path.startswith((*CHECKED_ALWAYS, *RUN_ELSEWHERE)):
            raise UnknownSelectionError(f"no rule says which tests cover {path}")
    return sorted(
        test.path
        for test in tests
        if not modules.isdisjoint(test.modules)
        or not files.isdisjoint(test.files)
        or (playbooks and test.playbooks)
        or (benchmarks and test.benchmarks)
    )


def find_affected(path: str, graph: grimp.ImportGraph) -> set[str]:
    """Return the modules of accelkit that a file is part of, and all that import them."""
    pure = PurePosixPath(path)
    name = ".".join(("accelkit", *pure.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    if pure.suffix == ".py" and name in graph.modules:
        own = {name}
    else:
        # Data, or a module that is gone: whatever is in the next package above may use it.
        folder = pure.parent
        while (package := ".".join(("accelkit", *folder.relative_to(SOURCE).parts))) not in graph.modules:
            folder = folder.parent
        own = {package, *graph.find_descendants(package)}
    return own.union(*(graph.find_downstream_modules(module) for module in own))


def read_tests(commands: Mapping[str, str] = USER_COMMANDS | SERVICES) -> list[IntegrationTest]:
    """Read the integration tests of the repository.

    Args:
        commands: where each command of accelkit is, as `module:function`, by the command's name.
    """
    return [_read_test(path, commands) for path in sorted((REPOSITORY / INTEGRATION).glob("test_*.py"))]


def _read_test(path: Path, commands: Mapping[str, str]) -> IntegrationTest:
    paths = _follow(path) | _follow(CONFTEST)
    # All tests may use all of conftest.py; what a test does with it shows in its own files.
    files = [_read_python(each) for each in sorted(_follow(path) - {CONFTEST})]
    asked = frozenset[str]().union(*(each.parameters - each.functions for each in files))
    runs = not INSTALLED_FIXTURES.isdisjoint(asked) or any(RUNS_PLAYBOOKS.search(each.text) for each in files)
    started = {name for each in files for name in each.strings & commands.keys()}
    modules = _read_python(CONFTEST).modules.union(*(each.modules for each in files))
    if runs:
        modules |= _list_plugin_imports()
        started.update(INSTALLED_COMMANDS)
    modules |= {commands[name].partition(":")[0] for name in started}
    return IntegrationTest(
        str(path.relative_to(REPOSITORY)),
        frozenset(str(each.relative_to(REPOSITORY)) for each in paths),
        modules,
        playbooks=runs or any(READS_PLAYBOOKS.search(each.text) for each in files),
        benchmarks=any('/ "bench' in each.text for each in files),
    )


@cache
def _list_plugin_imports() -> frozenset[str]:
    """Return the modules that the modules and plug-ins of the Ansible collection import."""
    return frozenset[str]().union(*(_read_python(path).modules for path in (REPOSITORY / "plugins").rglob("*.py")))


@cache
def _read_python(path: Path) -> _PythonFile:
    text = path.read_text()
    modules, strings, parameters, functions = set[str](), set[str](), set[str](), set[str]()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                modules |= {each.name for each in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                modules |= {module, *(f"{module}.{each.name}" for each in names)}
            case ast.Constant(value=str(value)):
                strings.add(value)
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                functions.add(name)
                parameters |= {each.arg for each in args.args}
            case _:
                pass
    return _PythonFile(text, frozenset(modules), frozenset(strings), frozenset(parameters), frozenset(functions))


@cache
def _follow(path: Path) -> frozenset[Path]:
    """Return a file of tests, and those that it imports."""
    found, left = set[Path](), [path]
    while left:
        if (each := left.pop()) in found:
            continue
        found.add(each)
        places = [module.replace(".", "/") for module in _read_python(each).modules]
        files = [REPOSITORY / folder / place for place in places for folder in (TESTS, INTEGRATION)]
        left += [file for each in files for file in (each.with_suffix(".py"), each / "__init__.py") if file.is_file()]
    return frozenset(found)


def list_changed(commit: str, repository: Path = REPOSITORY) -> list[str]:
    """Return the paths that differ between a commit and the working tree, deleted and untracked ones included.

    Raises:
        UnknownSelectionError: the commit is not part of this history.
    """
    if run_git(repository, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        raise UnknownSelectionError(f"{commit} is not a commit before this one")
    changed = run_git(repository, "diff", "--name-only", "--no-renames", commit)
    untracked = run_git(repository, "ls-files", "--others", "--exclude-standard")
    if changed is None or untracked is None:
        raise UnknownSelectionError(f"git cannot compare {commit} with this folder")
    return [*changed.splitlines(), *untracked.splitlines()]


def find_base(repository: Path = REPOSITORY) -> str:
    """Return the commit where HEAD left the main branch.

    Raises:
        UnknownSelectionError: HEAD is on the main branch, or no main branch is known.
    """
    if base := os.environ.get("CI_MERGE_BASE"):
        return base
    head = (run_git(repository, "rev-parse", "HEAD") or "").strip()
    for base in list_merge_bases(repository, MAIN_BRANCHES):
        if base != head:
            return base
    raise UnknownSelectionError("HEAD has no commits beside the main branch; set CI_MERGE_BASE or SINCE to a commit")


def main() -> int:
    """Print the selection; return the exit status."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        commit = arguments[0] if arguments else find_base()
        selected = select(list_changed(commit), read_tests(), grimp.build_graph("accelkit", cache_dir=None))
        print(f"{len(selected)} files of tests cover what changed since {commit}", file=sys.stderr)
    except UnknownSelectionError as exc:
        print(f"all tests: {exc}", file=sys.stderr)
        selected = ["all"]
    print("".join(f"{each}\n" for each in selected), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
