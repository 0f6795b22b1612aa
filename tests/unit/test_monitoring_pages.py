"""Metrics, alerts, dashboards and their pages say the same."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from exported_metrics import list_exported, list_names_in_sources, list_rows
from real_prometheus import FILES, list_queries
from support.yaml import read_yaml

from accelkit.scheduler.configuration.extender_entry import ExtenderEntry

ROOT = Path(__file__).resolve().parents[2]
RULES = [rule for group in read_yaml(FILES / "rules.yml")["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
METRICS = (ROOT / "docs/reference/metrics.md").read_text()
RUNBOOKS = (ROOT / "docs/how-to/runbooks.md").read_text()
DOCUMENTED = set(re.findall(r"^\| `((?:accelkit|accelerator)_\w+)` \|", METRICS, re.MULTILINE))
NAME = re.compile(r"\b(?:accelkit|accelerator)_\w+")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def list_metrics(expression):
    """The metrics that an expression asks for, a histogram by its own name."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(expression)}


def test_metrics_table_matches_metrics_of_services():
    rows = [line for line in METRICS.splitlines() if line.startswith(("| `accelkit_", "| `accelerator_"))]
    of_vendors = [line for line in rows if "DCGM" in line]
    assert [line for line in rows if line not in of_vendors] == list_rows()


def test_each_metric_in_sources_is_exported():
    shown = {metric.name.removesuffix("_total") for _, metric in list_exported()}
    of_pods = {name for name in shown if name.startswith("accelerator_pod_")}
    # Those of pods are made of those of cards.
    assert list_names_in_sources() == shown - of_pods
    assert {name.replace("_pod_", "_") for name in of_pods} < shown


def test_metric_names_end_with_their_units():
    units = (
        "_bytes",
        "_celsius",
        "_hertz",
        "_ratio",
        "_watts",
        "_joules_total",
        "_seconds",
        "_total",
        "_info",
        "_ready",
    )
    plain = {"accelerator_cordoned", "accelerator_last_xid"}
    names = {metric.name for _, metric in list_exported() if metric.name.startswith("accelerator_")} - plain
    assert [name for name in sorted(names) if not name.endswith(units)] == []
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for _, metric in list_exported())


@pytest.mark.parametrize("rule", ALERTS, ids=[f"{rule['alert']} {rule['labels']['severity']}" for rule in ALERTS])
def test_each_alert_has_runbook_and_uses_documented_metrics(rule):
    name = rule["alert"]
    assert f"\n## {name}\n" in RUNBOOKS
    assert rule["annotations"]["runbook_url"] == f"https://accelkit.io/docs/runbooks#{name.lower()}"
    assert f"| [{name}](runbooks.md#{name.lower()}) |" in (ROOT / "docs/how-to/monitoring.md").read_text()
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert list_metrics(rule["expr"])
    assert list_metrics(rule["expr"]) - DOCUMENTED == set()


def test_each_runbook_belongs_to_an_alert():
    assert set(re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)) == {rule["alert"] for rule in ALERTS}
    assert all(f"`{name}`" in METRICS for name in RECORDED)


def test_slow_extender_alert_fires_at_half_of_scheduler_timeout():
    (slow,) = (rule for rule in ALERTS if rule["alert"] == "AccelkitExtenderSlow")
    waits = ExtenderEntry.__dataclass_fields__["http_timeout"].default
    assert f"> {int(waits.removesuffix('s')) // 2}" in slow["expr"]
    assert f"gives up after {waits.removesuffix('s')} s" in slow["annotations"]["description"]


@pytest.mark.parametrize("query", list_queries(), ids=str)
def test_each_panel_uses_documented_metrics(query):
    assert list_metrics(query.expression)
    assert list_metrics(query.expression) - DOCUMENTED == set()


def test_dashboards_match_output_of_script(tmp_path):
    if importlib.util.find_spec("grafana_foundation_sdk") is None:
        pytest.skip("grafana-foundation-sdk is not installed")
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/dashboards.py", "--to", tmp_path], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files == {path.name: path.read_text() for path in (FILES / "dashboards").iterdir()}


def run_promtool(*arguments, folder):
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_alerts_fire_under_expected_conditions(tmp_path):
    shutil.copy(FILES / "rules.yml", tmp_path)
    shutil.copy(ROOT / "tests/unit/roles/monitoring_rules/alerts.yml", tmp_path)
    run_promtool("check", "rules", "rules.yml", folder=tmp_path)
    run_promtool("test", "rules", "alerts.yml", folder=tmp_path)


def test_each_alert_has_promtool_test():
    tried = (ROOT / "tests/unit/roles/monitoring_rules/alerts.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tried)) == {rule["alert"] for rule in ALERTS}


@needs_promtool
def test_promtool_parses_each_panel_query(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": query.expression} for number, query in enumerate(list_queries())]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    run_promtool("check", "rules", "panels.yml", folder=tmp_path)
