"""Generate the dashboards of roles/monitoring from this description: `python scripts/dashboards.py`.

They are made with Grafana's own library for Grafana 11.6, and committed, so that the
installation of accelkit does not need it. Each dashboard queries only metrics of
docs/reference/metrics.md; a test compares the files with the output of this script if the library is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FOLDER = Path(__file__).resolve().parents[1] / "roles/monitoring/files/dashboards"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH, HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Graph:
    """A panel of lines over time.

    Attributes:
        queries: legend and PromQL of each.
        unit: Grafana's name of the base unit that the metric has.
        most: where the axis ends; None where the largest value does.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A panel of one number."""

    title: str
    query: str
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class Rows:
    """A panel of rows, one for each series that there is now."""

    title: str
    query: str


Panel = Graph | Number | Rows


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: its identity, the label that its variables are read from, and its panels."""

    uid: str
    title: str
    text: str
    variables: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]


_CARD = 'node=~"$node", card=~"$card"'
_NAME = "{{node}} {{card}}"
_POD = 'namespace=~"$namespace"'
# Some drivers report only energy.
_POWER = (
    f"accelerator_power_usage_watts{{{_CARD}}} or rate(accelerator_energy_joules_total{{{_CARD}}}[$__rate_interval])"
)
_DURATION = "accelkit_extender_request_duration_seconds"

BOARDS = (
    Board(
        "accelkit-cards",
        "accelkit / Cards",
        "State and use of the cards of all vendors.",
        (
            ("node", "label_values(accelerator_info, node)"),
            ("card", 'label_values(accelerator_info{node=~"$node"}, card)'),
        ),
        (
            Number("Cards", f"count(accelerator_info{{{_CARD}}})"),
            Number(
                "Unhealthy cards",
                f'count(accelerator_health_info{{{_CARD}, state!="healthy"}}) or vector(0)',
            ),
            Graph("Utilisation", ((_NAME, f"accelerator_utilization_ratio{{{_CARD}}}"),), "percentunit", 1),
            Graph(
                "Memory in use",
                ((_NAME, f"accelerator_memory_used_bytes{{{_CARD}}} / accelerator_memory_total_bytes{{{_CARD}}}"),),
                "percentunit",
                1,
            ),
            Graph("Temperature", ((_NAME, f"accelerator_temperature_celsius{{{_CARD}}}"),), "celsius"),
            Graph(
                "Power",
                (
                    (
                        _NAME,
                        _POWER,
                    ),
                ),
                "watt",
            ),
            Graph(
                "Clocks",
                (
                    (f"{_NAME} compute", f"accelerator_sm_clock_hertz{{{_CARD}}}"),
                    (f"{_NAME} memory", f"accelerator_memory_clock_hertz{{{_CARD}}}"),
                ),
                "hertz",
            ),
            Graph(
                "Memory errors in an hour",
                (
                    (f"{_NAME} uncorrected", f"increase(accelerator_ecc_uncorrected_errors_total{{{_CARD}}}[1h])"),
                    (f"{_NAME} corrected", f"increase(accelerator_ecc_corrected_errors_total{{{_CARD}}}[1h])"),
                ),
            ),
            Rows("Health", f"accelerator_health_info{{{_CARD}}}"),
            Rows("Cards to repair", f"accelerator_fault_info{{{_CARD}}}"),
        ),
    ),
    Board(
        "accelkit-pods",
        "accelkit / Pods",
        "Shares of namespaces and pods, and the use of cards by pods that have a whole card.",
        (("namespace", "label_values(accelerator_share_memory_bytes, namespace)"),),
        (
            Graph(
                "Memory held by namespaces",
                (("{{namespace}}", f"sum by (namespace) (accelerator_share_memory_bytes{{{_POD}}})"),),
                "bytes",
            ),
            Graph(
                "Memory beyond the share",
                (("{{namespace}}/{{pod}} {{card}}", f"accelkit_over_use_bytes{{{_POD}}}"),),
                "bytes",
            ),
            Graph(
                "Utilisation by pods with a whole card",
                (("{{namespace}}/{{pod}} {{card}}", f"accelerator_pod_utilization_ratio{{{_POD}}}"),),
                "percentunit",
                1,
            ),
            Graph(
                "Memory in use by pods with a whole card",
                (("{{namespace}}/{{pod}} {{card}}", f"accelerator_pod_memory_used_bytes{{{_POD}}}"),),
                "bytes",
            ),
            Graph(
                "Power of pods with a whole card",
                (("{{namespace}}/{{pod}} {{card}}", f"accelerator_pod_power_usage_watts{{{_POD}}}"),),
                "watt",
            ),
            Graph(
                "Quotas",
                (
                    (
                        "{{namespace}} {{of}}",
                        f"max by (namespace, of) (accelkit_quota_used{{{_POD}}} / accelkit_quota_limit{{{_POD}}})",
                    ),
                ),
                "percentunit",
                1,
            ),
            Rows("Shares", f"accelerator_share_memory_bytes{{{_POD}}}"),
        ),
    ),
    Board(
        "accelkit-cluster",
        "accelkit / Cluster",
        "Stages of the nodes, the ledger, kube-scheduler's extender, kernel caches and certificates.",
        (),
        (
            Number("Cards", "sum(max by (node) (accelkit_cards))"),
            Number("Leaders", "sum(accelkit_leader and on (instance) accelkit_pods)"),
            Rows("Failed stages", "max by (node, stage, reason) (accelerator_stage_failure_info)"),
            Rows("Stages", "max by (node, stage, vendor) (accelerator_stage_ready)"),
            Graph(
                "Memory that can be shared",
                (
                    ("all", "sum(max by (node) (accelkit_memory_capacity_bytes))"),
                    ("held", "sum(max by (node) (accelkit_memory_used_bytes))"),
                ),
                "bytes",
            ),
            Graph(
                "99th percentile of the extender's response time",
                (
                    (
                        "{{verb}}",
                        f"histogram_quantile(0.99, sum by (le, verb) (rate({_DURATION}_bucket[$__rate_interval])))",
                    ),
                ),
                "s",
            ),
            Graph(
                "Corrections in an hour",
                (
                    ("corrected", "sum(increase(accelkit_assignment_corrections_total[1h]))"),
                    ("recorded", "sum(increase(accelkit_assignments_recorded_total[1h]))"),
                    ("refused", "sum(increase(accelkit_assignment_correction_failures_total[1h])) or vector(0)"),
                ),
            ),
            Graph(
                "Pods without a readable assignment", (("{{node}}", "max by (node) (accelkit_unassigned_pods) > 0"),)
            ),
            Graph(
                "Kernel caches",
                (("{{condition}} {{status}}", "max by (condition, status) (accelkit_kernel_caches)"),),
            ),
            Graph(
                "Time until certificates expire",
                (
                    (
                        "{{certificate}}",
                        "min by (certificate) (accelkit_certificate_expiry_timestamp_seconds) - time()",
                    ),
                ),
                "s",
            ),
        ),
    ),
)


def build(board: Board) -> str:
    """Return a dashboard as Grafana imports it."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags(["accelkit"])
        .time("now-6h", "now")
        .refresh("1m")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for name, query in board.variables:
        built = built.with_variable(
            dashboard.QueryVariable(name)
            .query(query)
            .datasource(SOURCE)
            .multi(multi=True)
            .include_all(include_all=True)
            .all_value(".*")
        )
    for number, panel in enumerate(board.panels, start=1):
        built = built.with_panel(build_panel(panel).id(number))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def build_panel(panel: Panel) -> timeseries.Panel | stat.Panel | table.Panel:
    """Return a panel's builder."""
    match panel:
        case Graph():
            made = timeseries.Panel().title(panel.title).unit(panel.unit).min(0)
            if panel.most is not None:
                made = made.max(panel.most)
            for name, (legend, query) in zip("ABCDE", panel.queries, strict=False):
                target = prometheus.Dataquery().ref_id(name).expr(query).legend_format(legend).range()
                made = made.with_target(target)
            return made.datasource(SOURCE).span(WIDTH).height(HEIGHT)
        case Number():
            one = prometheus.Dataquery().ref_id("A").expr(panel.query).instant()
            return (
                stat.Panel().title(panel.title).unit(panel.unit).with_target(one).datasource(SOURCE).span(4).height(4)
            )
        case Rows():
            rows = prometheus.Dataquery().ref_id("A").expr(panel.query).instant().format(PromQueryFormat.TABLE)
            return table.Panel().title(panel.title).with_target(rows).datasource(SOURCE).span(WIDTH).height(HEIGHT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder of the files")
    folder: Path = parser.parse_args(arguments).to
    folder.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (folder / f"{board.uid}.json").write_text(build(board))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
