"""The command `accelkit cache-controller`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from accelkit import __version__
from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.service import ControllerOptions, run
from accelkit.command_options import (
    EXISTING_FILE,
    kubeconfig_option,
    log_format_option,
    own_namespace_option,
    trusted_root_option,
)
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.commands.options import read_settings, registry_options
from accelkit.kube.lease import parse_lease
from accelkit.logs import LogFormat, set_up_service_log
from accelkit.serving.tls import Listen, TlsFiles, make_context

_PORT = click.IntRange(1, 65535)
_ANYWHERE = "0.0.0.0"  # noqa: S104 - the address of the pod is unknown at startup


@click.command("cache-controller", short_help="Verify the kernel caches of the cluster and create their claims.")
@click.version_option(__version__, prog_name="accelkit cache-controller")
@own_namespace_option
@kubeconfig_option
@click.option("--lease", required=True, envvar="ACCELKIT_LEASE", help="Lease for leader election, as NAMESPACE/NAME.")
@click.option("--identity", required=True, envvar="POD_NAME", help="Unique name of this replica (POD_NAME).")
@click.option("--image", required=True, envvar="ACCELKIT_IMAGE", help="accelkit image for Jobs and init containers.")
@trusted_root_option
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    envvar="ACCELKIT_WORKERS",
    help="Number of images to verify concurrently.",
)
@click.option(
    "--judge-again-seconds",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    envvar="ACCELKIT_JUDGE_AGAIN_SECONDS",
    help="Interval between verifications of an unchanged image.",
)
@click.option(
    "--guard-seconds",
    type=click.FloatRange(min=1),
    default=5.0,
    show_default=True,
    envvar="ACCELKIT_GUARD_SECONDS",
    help="Time until all API servers refuse writable mounts of a new cache, after which its claims are created.",
)
@click.option(
    "--metrics-port",
    type=_PORT,
    envvar="ACCELKIT_METRICS_PORT",
    help="Port for /healthz, /readyz, /version and /metrics, without TLS.",
)
@click.option("--webhook-port", type=_PORT, envvar="ACCELKIT_WEBHOOK_PORT", help="Port for the pod webhook.")
@click.option(
    "--webhook-cert", type=EXISTING_FILE, envvar="ACCELKIT_WEBHOOK_CERT", help="Certificate chain of the webhook (PEM)."
)
@click.option(
    "--webhook-key", type=EXISTING_FILE, envvar="ACCELKIT_WEBHOOK_KEY", help="Private key of the webhook (PEM)."
)
@click.option(
    "--job-service-account",
    default="",
    envvar="ACCELKIT_JOB_SERVICE_ACCOUNT",
    help="ServiceAccount of the Jobs that fill claims.",
)
@log_format_option
@registry_options
def cache_controller(**options: Any) -> None:
    """Verify the image of each GKMCache and create the claims that its pods mount."""
    set_up_service_log("cache-controller", None, LogFormat(options["log_format"]))
    asyncio.run(run(read_options(options)))


def read_options(options: dict[str, Any]) -> ControllerOptions:
    """Return the controller options from the command line options.

    Raises:
        ConfigurationError: an option is missing, or a file cannot be read.
    """
    mirrors, plain, ca_file = options["mirror"], options["plain_http"], options["registry_ca"]
    settings = read_settings(options)
    settings.build_tls_context()
    arguments = [f"--mirror={each}" for each in mirrors] + [f"--plain-http={each}" for each in plain]
    trusted_root: Path | None = options["trusted_root"]
    fill = FillSettings(
        options["image"],
        options["namespace"],
        options["job_service_account"],
        tuple(arguments),
        _read(trusted_root),
        _read(ca_file),
    )
    metrics = options["metrics_port"]
    return ControllerOptions(
        fill=fill,
        lease=parse_lease(options["lease"]),
        identity=options["identity"],
        settings=settings,
        kubeconfig=options["kubeconfig"],
        trusted_root=trusted_root,
        workers=options["workers"],
        again_seconds=options["judge_again_seconds"],
        guard_seconds=options["guard_seconds"],
        metrics=Listen(_ANYWHERE, metrics) if metrics else None,
        webhook=_read_webhook(options),
    )


def _read_webhook(options: dict[str, Any]) -> Listen | None:
    port, certificate, key = (options[each] for each in ("webhook_port", "webhook_cert", "webhook_key"))
    if not port:
        return None
    if not (certificate and key):
        raise ConfigurationError(
            "cannot serve the pod webhook: --webhook-port requires a certificate and its private key",
            next_step="set --webhook-cert and --webhook-key",
        )
    files = TlsFiles(certificate, key, None)
    make_context(files)
    return Listen(_ANYWHERE, port, files)


def _read(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as exc:
        raise ConfigurationError(f"cannot read {path}: {exc.strerror}") from exc
