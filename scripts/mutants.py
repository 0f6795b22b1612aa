"""Change the code a little, run the tests, and count how often they notice.

A package is a folder of src/accelkit with all below it. From each a sample of mutants is drawn, the same for the same
seed, and each is given to the tests of its package, which are those in the folder of that name below
tests/unit/accelkit, else in the nearest folder above it, and to the tests of other packages that name its module. A
mutant dies when a test fails or the deadline passes. Everything happens in copies of the checkout. The exit status is 1
where less than the wanted share dies in a package.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from mutations import Mutant, find_mutants

REPOSITORY = Path(__file__).parents[1]
SOURCE = Path("src/accelkit")
TESTS = Path("tests/unit/accelkit")
GENERATED = "_proto"
WANTED_PERCENT = 90
PROCESSES = 2
# A run may take this many times as long as it takes unchanged, since the machine may be busy.
SLACK = 4
SHORTEST_DEADLINE_SECONDS = 60.0
BASELINE_SECONDS = 900.0
# A mutant that never ends must not take the machine's memory, nor outlive this process (PR_SET_PDEATHSIG).
PYTEST = """
import ctypes, resource, sys
ctypes.CDLL(None).prctl(1, 9)
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
NO_TESTS = 5


class MutantsError(Exception):
    """Mutants cannot be judged; the text says why."""


class Checkout:
    """A copy of the checkout in which one mutant at a time is tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (REPOSITORY / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, folder / name, follow_symlinks=False)
        # Compiled by content, since a mutant can have its original's size and time.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder / SOURCE, quiet=2, invalidation_mode=mode)

    def survives(self, mutant: Mutant, tests: Sequence[Path], seconds: float) -> bool:
        """Return whether all tests pass with the mutant."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        try:
            return self.passes(_add_nearest(self.folder, tests, mutant.path), seconds)
        finally:
            path.write_bytes(source)

    def passes(self, tests: Sequence[Path], seconds: float, *, write_bytecode: bool = False) -> bool:
        """Run tests until the first fails; those that exceed the time fail."""
        environ = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONHASHSEED": "0"}
        if not write_bytecode:
            environ["PYTHONDONTWRITEBYTECODE"] = "1"
        plugins = ("-p", "no:randomly", "-p", "no:cacheprovider", "-o", "addopts=", "--hypothesis-seed=0")
        command = [sys.executable, "-c", PYTEST, "-x", "-q", *plugins, *map(str, tests)]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = 1
            finally:
                _end_session(process.pid)
        if code == NO_TESTS:
            raise MutantsError(f"no tests in {', '.join(map(str, tests))}")
        return code == 0


def list_packages() -> list[str]:
    """Return the folders right below the package that hold modules, and `.` for the modules beside them."""
    folders = (each for each in (REPOSITORY / SOURCE).iterdir() if each.is_dir() and any(each.rglob("*.py")))
    return [".", *sorted(each.name for each in folders)]


def find_modules(package: str) -> list[Path]:
    """Return the modules of a package, relative to the checkout."""
    folder = REPOSITORY / SOURCE / package
    if not folder.is_dir():
        raise MutantsError(f"there is no folder {SOURCE / package}; packages are {', '.join(list_packages())}")
    found = folder.glob("*.py") if package == "." else folder.rglob("*.py")
    return sorted(each.relative_to(REPOSITORY) for each in found if GENERATED not in each.parts)


def find_tests(package: str) -> list[Path]:
    """Return the test files of a package, relative to the checkout."""
    if package == ".":
        return sorted(each.relative_to(REPOSITORY) for each in (REPOSITORY / TESTS).glob("test_*.py"))
    folder = TESTS / package
    while not any((REPOSITORY / folder).rglob("test_*.py")):
        folder = folder.parent
    return sorted(each.relative_to(REPOSITORY) for each in (REPOSITORY / folder).rglob("test_*.py"))


def draw_sample(package: str, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of a package, the same ones for the same seed and the same code."""
    everything = [
        each for path in find_modules(package) for each in find_mutants(path, (REPOSITORY / path).read_bytes())
    ]
    chosen = random.Random(f"{seed} {package}").sample(everything, min(count, len(everything)))  # noqa: S311 - no secret
    return sorted(chosen)


def judge_package(package: str, mutants: Sequence[Mutant], checkouts: Sequence[Checkout]) -> list[Mutant]:
    """Return the mutants of a package that survive its tests.

    Raises:
        MutantsError: the tests fail without any mutant.
    """
    tests = find_tests(package)
    began = time.monotonic()
    # All copies at once: that is how the mutants run, and it leaves compiled tests in each.
    with ThreadPoolExecutor(len(checkouts)) as pool:
        passed = list(pool.map(lambda each: each.passes(tests, BASELINE_SECONDS, write_bytecode=True), checkouts))
    if not all(passed):
        raise MutantsError(f"the tests of {package} fail without a mutant; run pytest {_find_folder(tests)}")
    deadline = max(SHORTEST_DEADLINE_SECONDS, SLACK * (time.monotonic() - began))
    free = queue.SimpleQueue[Checkout]()
    for checkout in checkouts:
        free.put(checkout)

    def survives(mutant: Mutant) -> bool:
        checkout = free.get()
        try:
            return checkout.survives(mutant, tests, deadline)
        finally:
            free.put(checkout)

    with ThreadPoolExecutor(len(checkouts)) as pool:
        return [mutant for mutant, alive in zip(mutants, pool.map(survives, mutants), strict=True) if alive]


def main() -> int:
    """Judge the packages; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--package",
        "--room",
        action="append",
        metavar="FOLDER",
        dest="packages",
        help="a folder below src/accelkit, such as placement or kernelcache/signatures; may be repeated (default: all)",
    )
    parser.add_argument("--sample", type=int, default=20, help="mutants of each package (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other mutants (default: %(default)s)")
    options = parser.parse_args()
    enough = True
    try:
        with _checkouts() as checkouts:
            for package in options.packages or list_packages():
                enough &= _report(package, draw_sample(package, options.sample, options.seed), checkouts)
    except MutantsError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0 if enough else 1


def _report(package: str, mutants: Sequence[Mutant], checkouts: Sequence[Checkout]) -> bool:
    """Test and print one package; return whether enough of its mutants were detected."""
    if not mutants:
        print(f"{package}: nothing to change", flush=True)
        return True
    began = time.monotonic()
    survivors = judge_package(package, mutants, checkouts)
    dead = len(mutants) - len(survivors)
    share = 100 * dead // len(mutants)
    print(f"{package}: {share} % died ({dead} of {len(mutants)}, {time.monotonic() - began:.0f} s)", flush=True)
    for each in survivors:
        print(f"  survived {each}", flush=True)
    return share >= WANTED_PERCENT


@contextmanager
def _checkouts() -> Iterator[list[Checkout]]:
    with tempfile.TemporaryDirectory(prefix="accelkit-mutants-", ignore_cleanup_errors=True) as name:
        folders = [Path(name) / str(number) for number in range(PROCESSES)]
        yield [Checkout(each) for each in folders]


def _add_nearest(folder: Path, tests: Sequence[Path], module: Path) -> list[Path]:
    """Put the tests that name the module in front, those of other packages too, as most mutants die there."""
    name = ".".join(module.relative_to("src").with_suffix("").parts).encode()
    known = [each.relative_to(folder) for each in sorted((folder / TESTS).rglob("test_*.py"))]
    nearest = [each for each in known if name in (folder / each).read_bytes()]
    return [*nearest, *(each for each in tests if each not in nearest)]


def _end_session(pid: int) -> None:
    """End what a run left behind; its processes share its session's group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _find_folder(tests: Sequence[Path]) -> str:
    return os.path.commonpath([each.parent for each in tests])


if __name__ == "__main__":
    sys.exit(main())
