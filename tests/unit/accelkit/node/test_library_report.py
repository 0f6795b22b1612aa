import logging

from accelkit.node.discovery import Library, LibraryState
from accelkit.node.library_report import LibraryReport
from accelkit.node.metrics import Metrics

NVML = "libnvidia-ml.so.1"
WORKS = Library(NVML, LibraryState.WORKS, "/usr/lib64/libnvidia-ml.so.550.54.14", "550.54.14")
SILENT = Library(NVML, LibraryState.SILENT, "/usr/lib64/libnvidia-ml.so.550.54.14", "550.54.14", "its driver is away")
NONE = Library("libefml.so", LibraryState.MISSING, reason="it is nowhere")


def test_each_change_of_library_state_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    report = LibraryReport(Metrics())
    for found in (WORKS, WORKS, SILENT, SILENT):
        report.update({"nvidia": (found,), "enflame": (NONE,)})
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"library {NVML} of nvidia works at {WORKS.path} version 550.54.14"),
        ("WARNING", "library libefml.so of enflame missing: it is nowhere"),
        ("WARNING", f"library {NVML} of nvidia silent at {WORKS.path} version 550.54.14: its driver is away"),
    ]


def test_metric_has_only_present_library_states():
    metrics = Metrics()
    report = LibraryReport(metrics)
    report.update({"nvidia": (WORKS,)})
    report.update({"nvidia": (SILENT,)})
    (gauge,) = [each for each in metrics.registry.collect() if each.name == "accelkit_vendor_library"]
    assert [(sample.labels, sample.value) for sample in gauge.samples] == [
        (
            {"vendor": "nvidia", "library": NVML, "state": "silent", "path": SILENT.path, "version": "550.54.14"},
            1,
        )
    ]


def test_problems_are_returned_each_time_and_truncated_for_inventory():
    report = LibraryReport(Metrics())
    talkative = Library("libx.so", LibraryState.BROKEN, reason="no " * 1000)
    found = {"nvidia": (SILENT, WORKS), "enflame": (NONE,), "x": (talkative,)}
    problems = report.update(found)
    assert problems[:2] == (
        "library libefml.so of enflame is missing: it is nowhere",
        f"library {NVML} of nvidia is silent: its driver is away",
    )
    assert len(problems) == 3
    assert max(map(len, problems)) == 500
    assert report.update(found) == problems
    assert report.update({"nvidia": (WORKS,)}) == ()
