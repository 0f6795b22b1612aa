"""The command `accelkit gas-extender`: the extender with the flags of Intel's GPU Aware Scheduling."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from accelkit import __version__
from accelkit.command_options import FILE
from accelkit.errors import ConfigurationError
from accelkit.extender.gas.card_order import CardOrder
from accelkit.extender.listen import parse_listen
from accelkit.extender.service import ExtenderOptions, run
from accelkit.logs import LogFormat, set_up_service_log
from accelkit.model.units import parse_unit
from accelkit.placement.plugged_policies import PluggedPolicy
from accelkit.serving.tls import CLIENT_NAME, Listen
from accelkit.vendors.dialects import load_own_dialect

log = logging.getLogger(__name__)

DIALECT: Final = "gas"
# Common name of kube-scheduler's client certificate, which kubeadm creates.
_SCHEDULER: Final = "system:kube-scheduler"
# Flags may have a single dash, and boolean flags may omit the value.
_BOOLEAN: Final[dict[str, Any]] = {"type": bool, "is_flag": False, "flag_value": "true", "default": False}


class _GoFlags(click.Command):
    """Command whose flags may start with one or two dashes, as in Go's package `flag`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_double_dash(each) for each in args])


@click.command("gas-extender", cls=_GoFlags, short_help="Serve kube-scheduler in place of Intel's GAS.")
@click.version_option(__version__, prog_name="accelkit gas-extender")
@click.option(
    "--kubeConfig",
    "kubeconfig",
    type=FILE,
    help="Kubeconfig of the cluster. Default: KUBECONFIG, else the service account of the pod.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=9001, show_default=True, help="Port to serve on.")
@click.option("--cert", type=FILE, help="Certificate chain of this server (PEM).")
@click.option("--key", type=FILE, help="Private key of this server (PEM).")
@click.option("--cacert", type=FILE, help="Authority that signed the clients' certificates (PEM).")
@click.option(
    "--clientName",
    "client_names",
    multiple=True,
    default=(CLIENT_NAME, _SCHEDULER),
    show_default=True,
    help="Common name or DNS name that a client's certificate must have; repeatable.",
)
@click.option(
    "--unsafe", **_BOOLEAN, help="Serve without TLS, so that every client that reaches the port can bind pods."
)
@click.option("--enableAllowlist", "allow", **_BOOLEAN, help="Read the allowed cards in the annotation gas-allow.")
@click.option("--enableDenylist", "deny", **_BOOLEAN, help="Read the denied cards in the annotation gas-deny.")
@click.option(
    "--balancedResource",
    "balanced_resource",
    default="",
    help="Name of a resource, without gpu.intel.com/; the card with the least use of this resource is taken.",
)
@click.option("--burst", type=int, expose_value=False, help="Ignored: requests are not limited.")
@click.option("--qps", type=int, expose_value=False, help="Ignored: requests are not limited.")
@click.option("--v", "verbosity", type=int, default=0, help="Log level; from 4, decisions are logged in detail.")
@click.option("--logtostderr", **_BOOLEAN, expose_value=False, help="Ignored: the log is written to stdout.")
def gas_extender(  # noqa: PLR0917 - click passes options by name
    kubeconfig: Path | None,
    port: int,
    cert: Path | None,
    key: Path | None,
    cacert: Path | None,
    client_names: tuple[str, ...],
    unsafe: bool,  # noqa: FBT001 - the same
    allow: bool,  # noqa: FBT001 - the same
    deny: bool,  # noqa: FBT001 - the same
    balanced_resource: str,
    verbosity: int,
) -> None:
    """Serve kube-scheduler in place of Intel's GPU Aware Scheduling, at /scheduler/filter and /scheduler/bind.

    The command accepts the flags of that program. Pods without gpu.intel.com/i915 or xe are not changed.
    """
    set_up_service_log("accelkit-gas-extender", None, LogFormat.TEXT)
    if verbosity >= 4:  # noqa: PLR2004 - the level of debugging in klog
        logging.getLogger("accelkit").setLevel(logging.DEBUG)
    uvloop.run(
        run(
            build_options(
                listen=_parse_listen(port, unsafe=unsafe, cert=cert, key=key, cacert=cacert, client_names=client_names),
                kubeconfig=kubeconfig,
                allow=allow,
                deny=deny,
                balanced_resource=balanced_resource,
            )
        )
    )


def build_options(
    *, listen: Listen, kubeconfig: Path | None, allow: bool, deny: bool, balanced_resource: str
) -> ExtenderOptions:
    """Return the options of the extender.

    Args:
        listen: the address to serve on.
        kubeconfig: the kubeconfig file; None for the default of the environment.
        allow: whether to read the lists of allowed cards from pods.
        deny: whether to read the lists of denied cards from pods.
        balanced_resource: the resource whose least used card is selected; empty for none.
    """
    policy = PluggedPolicy(DIALECT, CardOrder(balanced_resource), f"accelkit {__version__}")
    rules = load_own_dialect(DIALECT).pod_rules
    unread = {rules.allow: allow, rules.deny: deny} if rules else {}
    return ExtenderOptions(
        listen,
        parse_unit("1GiB"),
        policy,
        (DIALECT,),
        kubeconfig,
        # Without announcements, kube-scheduler may retry a rejected pod too early, before the ledger records that
        # another pod has terminated, and not retry it again.
        wake=True,
        unread_annotations=frozenset(key for key, read in unread.items() if not read),
    )


def _parse_listen(
    port: int, *, unsafe: bool, cert: Path | None, key: Path | None, cacert: Path | None, client_names: Sequence[str]
) -> Listen:
    if unsafe:
        log.warning("serving without TLS, so every client that reaches port %d can bind pods", port)
        return Listen("0.0.0.0", port)  # noqa: S104 - requested by --unsafe, and logged
    if cert is None or key is None or cacert is None:
        raise ConfigurationError(
            "cannot serve GAS without certificates",
            next_step="set --cert, --key and --cacert, or --unsafe",
        )
    return parse_listen(
        f"0.0.0.0:{port}",
        plain_http=False,
        certificate=cert,
        key=key,
        client_ca=cacert,
        client_names=client_names,
    )


def _double_dash(word: str) -> str:
    return f"-{word}" if word[:1] == "-" and word[1:2].isalpha() else word
