"""Each benchmark at a tiny size: whether it still runs, and says what it should. Nothing here is timed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

BENCH = Path(__file__).parents[2] / "bench"


def run(name, *arguments):
    command = [sys.executable, BENCH / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for path, figure in figures(results):
        assert set(figure) == {"figure", "aim", "met"}, path
        bound, aim = figure["aim"].rsplit(" ", 1)
        met = figure["figure"] >= float(aim) if bound == "at least" else figure["figure"] <= float(aim)
        assert figure["met"] is met, path
        assert (f"falls short: {path} is" in done.stderr) is not met, path
    return results


def figures(value, path=()):
    """Return the path and the value of each figure that has an aim."""
    if not isinstance(value, dict):
        return []
    if "aim" in value:
        return [(", ".join(path), value)]
    return [found for key, each in value.items() for found in figures(each, (*path, key))]


def test_filter_and_prioritize_are_compared_with_their_floor():
    results = run("filter.py", "--nodes", "8", "--rounds", "3")
    assert [path for path, _ in figures(results)] == [
        f"nodes=8, {kind}, ratio_p50" for kind in ("filter same", "filter busy", "filter shapes", "prioritize busy")
    ]


def test_searches_are_compared_with_what_needs_none():
    results = run("search.py", "--nodes", "4")
    assert [path for path, _ in figures(results)] == [
        f"{kind}, longest_hold_ms" for kind in ("equal", "mixed", "tight")
    ]


def test_binds_and_memory_are_measured_on_an_api_server():
    results = run("cluster.py", "--nodes", "4", "--bind-nodes", "2", "--batches", "1", "--batch", "2")
    assert [path for path, _ in figures(results)] == ["bind, ratio", "memory, resident_mib_after_use"]
    # Four pods of each node, and those that were bound through the extender and past it.
    assert results["memory"]["pods"] == 4 * 4 + 2 * 2


def test_a_device_plugin_is_measured_with_many_devices():
    results = run("devices.py", "--gib", "1", "--rounds", "1")
    assert results["devices"] == 8000
    assert [path for path, _ in figures(results)] == ["list_bytes", "preferred_seconds", "allocate_seconds"]


@pytest.mark.skipif(shutil.which("docker-registry") is None, reason="docker-registry is not installed")
@pytest.mark.skipif(shutil.which("cosign") is None, reason="cosign is not on PATH")
def test_an_extraction_is_measured_with_or_without_what_it_is_compared_to():
    results = run("cache.py", "--mib", "4", "--rounds", "1")
    assert results["image_mib"] == 4
    assert results["peak_mib"] > 0
    compared = [path for path, _ in figures(results)]
    assert compared == (["three_to_ours"] if shutil.which("skopeo") else [])
