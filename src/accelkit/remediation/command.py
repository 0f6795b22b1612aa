"""The command `accelkit remediation`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from accelkit import __version__
from accelkit.command_options import kubeconfig_option, log_format_option, own_namespace_option
from accelkit.kube.lease import parse_lease
from accelkit.logs import LogFormat, set_up_service_log
from accelkit.model.stage import Stage
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.service import ServiceOptions, run
from accelkit.serving.tls import Listen
from accelkit.vendors.dialects import list_dialect_names, load_dialects

_PORT = click.IntRange(1, 65535)
_SHARE = click.FloatRange(0, 1)
_SECONDS = click.FloatRange(min=1)
_ANYWHERE = "0.0.0.0"  # noqa: S104 - the address of the pod is unknown when it is configured
_DEFAULTS = RemediationSettings()


@click.command("remediation", short_help="Isolate, drain and repair failed cards.")
@click.version_option(__version__, prog_name="accelkit remediation")
@own_namespace_option
@kubeconfig_option
@click.option(
    "--lease",
    required=True,
    envvar="ACCELKIT_LEASE",
    help="Lease for leader election, as NAMESPACE/NAME.",
)
@click.option("--identity", required=True, envvar="POD_NAME", help="Unique name of this replica (POD_NAME).")
@click.option(
    "--mode",
    type=click.Choice([each.value for each in Mode]),
    default=_DEFAULTS.mode.value,
    show_default=True,
    envvar="ACCELKIT_REMEDIATION_MODE",
    help="Mode of remediation; dry-run reports the actions without changing nodes or pods.",
)
@click.option(
    "--max-unavailable",
    type=_SHARE,
    default=_DEFAULTS.max_unavailable,
    show_default=True,
    help="Maximum share of nodes with cards under remediation at once; at least one node, unless the share is 0.",
)
@click.option(
    "--trip-share",
    type=_SHARE,
    default=_DEFAULTS.trip_share,
    show_default=True,
    help="Share of nodes; remediation stops if cards on more nodes fail within the window.",
)
@click.option(
    "--trip-seconds",
    type=_SECONDS,
    default=_DEFAULTS.trip_seconds,
    show_default=True,
    help="Window for --trip-share, in seconds.",
)
@click.option("--taint/--no-taint", default=True, show_default=True, help="Also taint the node.")
@click.option(
    "--drain-seconds",
    type=_SECONDS,
    default=_DEFAULTS.drain_seconds,
    show_default=True,
    help="Time limit for evicting the pods of a card before an administrator is called, in seconds.",
)
@click.option(
    "--reset-job",
    default="",
    help="Suspended CronJob in --namespace that contains the template of the Job that resets a card.",
)
@click.option(
    "--repair-seconds",
    type=_SECONDS,
    default=_DEFAULTS.repair_seconds,
    show_default=True,
    help="Time limit for the Job, and then for the recovery of the card, in seconds.",
)
@click.option(
    "--healthy-seconds",
    type=_SECONDS,
    default=_DEFAULTS.healthy_seconds,
    show_default=True,
    help="Time for which a card must be healthy before its isolation is lifted, in seconds.",
)
@click.option(
    "--stage",
    "stages",
    type=click.Choice([each.value for each in Stage]),
    multiple=True,
    help="Stage that must pass after the repair; repeatable.",
)
@click.option(
    "--dialect",
    type=click.Choice(list_dialect_names()),
    multiple=True,
    default=("native",),
    show_default=True,
    help="Dialect of the pods, as configured for the extender; repeatable.",
)
@click.option(
    "--agent-name", default="accelkit-node-agent", show_default=True, help="Name of the node agent's objects."
)
@click.option(
    "--pause-seconds",
    type=_SECONDS,
    default=10.0,
    show_default=True,
    help="Pause between two passes over all nodes, in seconds.",
)
@click.option("--metrics-port", type=_PORT, help="Port for /healthz, /readyz, /version and /metrics, without TLS.")
@log_format_option
def remediation(**options: Any) -> None:
    """Isolate failed cards, evict their pods, and lift the isolation after the repair."""
    set_up_service_log("remediation", None, LogFormat(options["log_format"]))
    asyncio.run(run(read_options(options)))


def read_options(options: dict[str, Any]) -> ServiceOptions:
    """Return the options of the service.

    Raises:
        ConfigurationError: the Lease name is invalid, or a dialect cannot be used.
    """
    metrics = options["metrics_port"]
    return ServiceOptions(
        settings=RemediationSettings(
            mode=Mode(options["mode"]),
            max_unavailable=options["max_unavailable"],
            trip_share=options["trip_share"],
            trip_seconds=options["trip_seconds"],
            taint=options["taint"],
            drain_seconds=options["drain_seconds"],
            reset_job=options["reset_job"],
            repair_seconds=options["repair_seconds"],
            healthy_seconds=options["healthy_seconds"],
            stages=tuple(map(Stage, options["stages"])),
        ),
        namespace=options["namespace"],
        lease=parse_lease(options["lease"]),
        identity=options["identity"],
        agent=options["agent_name"],
        dialects=load_dialects(options["dialect"]),
        pause_seconds=options["pause_seconds"],
        kubeconfig=options["kubeconfig"],
        metrics=Listen(_ANYWHERE, metrics) if metrics else None,
    )
