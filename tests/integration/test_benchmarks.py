"""Each benchmark at a tiny size: whether it still runs, and says what it should. Nothing here is timed."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accelkit.placement.policies import Policy

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

BENCH = Path(__file__).parents[2] / "bench"
NOT_BENCHMARKS = {"run_all", "plots"}
TINY_DELIVERY = ("--mib", "4", "--rounds", "1", "--caches", "3")


def has_go():
    """Whether there is a Go that is new enough for the null extender."""
    if shutil.which("go") is None:
        return False
    told = subprocess.run(["go", "version"], capture_output=True, text=True, timeout=60, check=False, cwd="/").stdout
    version = re.search(r"\bgo(\d+)\.(\d+)", told)
    return version is not None and (int(version[1]), int(version[2])) >= (1, 24)


def run_only(name, *arguments, **environ):
    command = [sys.executable, BENCH / name, *map(str, arguments)]
    environ = {**os.environ, **environ}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environ)


def run(name, *arguments):
    done = run_only(name, *arguments)
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


def test_filter_benchmark_compares_filter_and_prioritize_with_floor():
    results = run("filter.py", "--nodes", "16", "8", "--rounds", "3")
    kinds = [f"{policy}, {kind}, together, ratio_p50" for policy in policies(results) for kind in ("same", "busy")]
    assert [path for path, _ in figures(results)] == [
        *(f"nodes=8, {kind}" for kind in [*kinds, "whole nodes, ratio_p50"]),
        *(f"nodes=16, {kind}" for kind in kinds),
        *(f"growth, {policy}, cpu" for policy in policies(results)),
    ]
    assert results["nodes=8"]["whole nodes"]["nodes"] == 8


def policies(results):
    """What was measured: all policies that the extender may be given, as it is installed and with all nodes left."""
    measured = [name for name, each in results["nodes=8"].items() if "busy" in each]
    assert measured == [f"{way}/{policy}" for way in ("installed", "all") for policy in Policy]
    return measured


def test_search_benchmark_reports_longest_hold():
    results = run("search.py", "--nodes", "4")
    assert [path for path, _ in figures(results)] == [
        f"{kind}, longest_hold_ms" for kind in ("equal", "mixed", "tight")
    ]


def test_cluster_benchmark_measures_binds_on_api_server():
    results = run("cluster.py", "--bind-nodes", "2", "--batches", "2", "--batch", "2", "--crowd-nodes", "1")
    assert [path for path, _ in figures(results)] == [
        "bind, ratio",
        *("crowd, bound", "crowd, filter, longest_ms", "crowd, bind, longest_ms", "crowd, miscounted_cards"),
    ]
    # Three shares of 24 GiB to each of 8 cards.
    crowd = results["crowd"]
    assert (crowd["room"], crowd["bound"]["figure"], crowd["pods"]) == (24, 24, 24 + crowd["callers"])
    assert crowd["miscounted_cards"]["figure"] == 0


def test_memory_benchmark_measures_listed_objects():
    results = run("memory.py", "--nodes", "5", "--pods", "30")
    assert [path for path, _ in figures(results)] == ["resident_mb_after_use", "resident_mb_at_peak"]
    assert (results["nodes"], results["cards"], results["pods"], results["fitting_nodes"]) == (5, 40, 30, 5)


def test_scheduler_benchmark_runs_with_and_without_accelkit():
    results = run(
        "scheduler.py", "--nodes", "2", "--pods", "10", "--rounds", "2", "--ways", "none", "ours", "--pending", "0"
    )
    assert [path for path, _ in figures(results)] == ["ours/none, ratio"]
    for way in ("none", "ours"):
        assert len(results[way]["pods_per_second"]) == 2
        assert ("extender" in results[way]["cpu_ms_per_pod"]) is (way == "ours")


def test_group_benchmark_compares_gated_and_single_pods():
    results = run("groups.py", "--nodes", "2", "--pods", "6", "--rounds", "2")
    assert [path for path, _ in figures(results)] == ["longest_of_gated_seconds"]
    for way in ("gated", "alone"):
        assert len(results[way]["seconds_from_last_pod_to_last_bind"]) == 2


@pytest.mark.skipif(not has_go(), reason="no Go 1.24 on PATH")
def test_scheduler_benchmark_compares_with_null_extender():
    arguments = ("--rounds", "1", "--ways", "null", "ours", "--pending", "12", "--pending-rounds", "1")
    results = run("scheduler.py", "--nodes", "2", "--pods", "10", *arguments)
    assert [path for path, _ in figures(results)] == ["ours/null, ratio", "pending, null/ours"]
    assert results["pending"]["pods"] == 12
    assert results["pending"]["null"]["max"] > 0


def test_scheduler_benchmark_reports_missing_go_compiler(tmp_path):
    done = run_only("scheduler.py", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "no `go` on PATH" in done.stderr
    assert "--ways none ours" in done.stderr
    assert "Traceback" not in done.stderr


def test_device_plugin_benchmark_runs_with_many_devices():
    results = run("devices.py", "--gib", "1", "--rounds", "1")
    assert results["devices"] == 8000
    assert [path for path, _ in figures(results)] == ["list_bytes", "preferred_seconds", "allocate_seconds"]


@pytest.mark.skipif(shutil.which("docker-registry") is None, reason="docker-registry is not installed")
@pytest.mark.skipif(shutil.which("cosign") is None, reason="cosign is not on PATH")
def test_cache_benchmark_measures_extraction_with_or_without_skopeo():
    results = run("cache.py", "--mib", "4", "--rounds", "1")
    assert results["image_mib"] == 4
    assert results["peak_mib"] > 0
    compared = [path for path, _ in figures(results)]
    assert compared == (["three_to_ours"] if shutil.which("skopeo") else [])


@pytest.mark.parametrize(
    ("lacking", "named"),
    [({"PATH": ""}, "docker"), ({"ACCELKIT_REGISTRY": ""}, "registry"), ({"KUBECONFIG": ""}, "cluster")],
)
def test_delivery_benchmark_is_skipped_if_prerequisite_is_missing(lacking, named, tmp_path):
    for program in ("docker", "kind", "kubectl", "cosign"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    there = {"PATH": str(tmp_path), "ACCELKIT_REGISTRY": "localhost:1", "KUBECONFIG": "file"}
    done = run_only("cache_delivery.py", *TINY_DELIVERY, **{**there, **lacking})
    assert done.returncode == 0, done.stderr
    assert named in json.loads(done.stdout)["skipped"]


def test_delivery_benchmark_runs_on_available_cluster():
    results = run("cache_delivery.py", *TINY_DELIVERY)
    if why := results.get("skipped"):
        pytest.skip(f"no delivery of kernel caches here: {why}")
    assert (results["image_mib"], results["small"]["caches"]) == (4, 3)
    compared = [path for path, _ in figures(results)]
    assert compared == ["job_to_ours", "held_digest_s", "agent, large_to_small"]


@pytest.mark.long
def test_enablement_benchmark_reports_no_changes_in_second_run():
    results = run("enablement.py", "--nodes", "2")
    assert [path for path, _ in figures(results)] == ["nodes=2, second_to_first", "nodes=2, second_changed"]
    found = results["nodes=2"]
    assert found["second_changed"]["figure"] == 0
    assert all(sum(counts.values()) == 2 for counts in found["stages"].values())


def test_run_all_lists_every_benchmark():
    assert {path.stem for path in BENCH.glob("*.py") if "argparse" in path.read_text()} - NOT_BENCHMARKS == set(
        load("run_all").NAMES
    )


def test_run_all_formats_figures_of_all_benchmarks_as_table():
    missed = {"figure": 2.5, "aim": "at most 1.5", "met": False}
    results = {"filter": {"nodes=8": {"spread": {"p50_ms": 1, "ratio": missed}}}, "cache": {"skipped": "why"}}
    assert load("run_all").format_table(results).splitlines() == [
        "benchmark  figure                  value  aim",
        "filter     nodes=8, spread, ratio  2.5    at most 1.5  NOT MET",
    ]


def test_run_all_rejects_unknown_benchmark():
    done = run_only("run_all.py", "filters")
    assert done.returncode == 2
    assert "there is no benchmark filters" in done.stderr


def load(name):
    specification = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_plots_are_drawn_from_results(tmp_path):
    together = {"p50_ms": 1.5, "p99_ms": 2.5, "floor_p50_ms": 1.0}
    busy = {"same": {}, "busy": {"together": together}}
    at_size = {"installed/spread": busy, "all/spread": busy, "shapes": {"together": together}}
    way = {"pods_per_second": [100.0, 120.0], "median": 110.0}
    written = {
        "allocation": {"policies": {"random": [[0.5, 0.5], [1.3, 0.9]]}},
        "filter": {"nodes=1000": at_size, "nodes=5000": at_size, "growth": {}},
        "scheduler": {"nodes": 1000, "none": way, "ours": way, "ours/none": {"ratio": 1.0}},
    }
    for name, results in written.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(results))
    done = run_only("plots.py", tmp_path, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    shown = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    words = {"allocation.svg": ">random<", "latency.svg": ">spread, median<", "pods-per-second.svg": ">ours<"}
    assert shown.keys() == words.keys()
    for name, word in words.items():
        assert word in shown[name]
    assert shown["latency.svg"].count(">spread, median<") == 1


@pytest.fixture
def traces():
    folder = os.environ.get("ACCELKIT_TRACES", "")
    if not folder or not Path(folder, "openb").is_dir():
        pytest.skip("ACCELKIT_TRACES does not name a folder with openb's lists")
    return folder


def test_allocation_benchmark_compares_policies_and_its_results_can_be_drawn(traces, tmp_path):
    few = ("--nodes", "40", "--lists", "gpushare40", "--seeds", "2", "--policies", "fgd,fragmentation")
    results = run("allocation.py", *few, "--traces", traces)
    assert (
        results["lists"]["openb_pod_list_gpushare40"].keys() == results["policies"].keys() == {"fgd", "fragmentation"}
    )
    for points in results["policies"].values():
        assert points[0] == [0, 0]
        assert points[-1][0] == pytest.approx(1.3, abs=0.1)
    (tmp_path / "allocation.json").write_text(json.dumps(results))
    assert run_only("plots.py", tmp_path, tmp_path).returncode == 0
    assert ">fragmentation<" in (tmp_path / "allocation.svg").read_text()


def test_failover_benchmark_measures_gap_and_counts_pods():
    results = run("failover.py", "--ways", "kill", "--times", "1", "--nodes", "3")
    assert len(results["kill"]["seconds"]) == 1
    assert results["pods"] > 0
    for figure in ("pods_not_bound", "pods_without_a_card", "cards_over_capacity"):
        assert results[figure]["figure"] == 0


def test_allocation_benchmark_replays_departures(traces):
    few = ("--nodes", "40", "--lists", "default,multigpu30", "--seeds", "1", "--arrivals", "100")
    results = run(
        "allocation.py", *few, "--policies", "bestfit,fragmentation", "--departures", "0.5,1.2", "--traces", traces
    )
    assert len(results["fragmentation above the best of the others"]) == len(results["lists"]) == 4
    for found in results["lists"].values():
        assert 0 < found["fragmentation"]["time_weighted_allocation_percent"] <= 100


def test_bound_benchmark_reports_bound_above_allocation(traces):
    results = run("bound.py", "--nodes", "40", "--loads", "1.3", "--traces", traces)
    assert len(results["lists"]) == 6
    for found in results["lists"].values():
        assert found["load 1.3"]["bound above fragmentation"]["met"]
        assert found["load 1.3"]["bound"] <= 100.01


def test_perturbed_benchmark_replays_variants(traces):
    results = run("perturbed.py", "--variants", "2", "--cards", "100", "--orders", "1", "--traces", traces)
    assert len(results["variants"]) == 2


def test_plots_report_missing_results(tmp_path):
    done = run_only("plots.py", tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "`make bench` writes them" in done.stderr
