"""Options that several commands share: registry access, signer policies, cards and workloads."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from accelkit.command_options import EXISTING_FILE, trusted_root_option
from accelkit.errors import ApiError, RegistryError
from accelkit.kernelcache.compatibility.arguments import parse_workload, resolve_cards
from accelkit.kernelcache.compatibility.node_facts import NodeHardware, WorkloadFacts
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, load_policies

_Result = TypeVar("_Result")
_Command = Callable[..., Any]

# Exit code if there is no verdict on the image, because the registry or the trusted root was unreachable.
UNKNOWN = 3


def registry_options(command: _Command) -> _Command:
    """Add options for registry access: `plain_http`, `registry_ca`, `mirror`, `registry_config`."""
    for option in (
        click.option(
            "--registry-config",
            *("registry_config",),
            type=EXISTING_FILE,
            multiple=True,
            help="Credentials: Docker's config.json or the file of a pull secret (default: the user's Docker logins).",
        ),
        click.option(
            "--mirror", multiple=True, metavar="REGISTRY=HOST[/PREFIX]", help="Query HOST before REGISTRY; repeatable."
        ),
        click.option(
            "--registry-ca", type=EXISTING_FILE, help="PEM file of additional certificate authorities to trust."
        ),
        click.option(
            "--plain-http",
            multiple=True,
            metavar="HOST[:PORT]",
            help="Registry to contact without TLS, named as in the image reference; repeatable.",
        ),
    ):
        command = option(command)
    return command


def policy_options(command: _Command) -> _Command:
    """Add options for trusted signers: `policy`, `trusted_root`, `namespace`."""
    for option in (
        click.option("--namespace", help="Namespace to which the policies apply."),
        trusted_root_option,
        click.option(
            "--policy",
            type=EXISTING_FILE,
            envvar="ACCELKIT_SIGNER_POLICY",
            help="Signer policies, YAML (ACCELKIT_SIGNER_POLICY).",
        ),
    ):
        command = option(command)
    return command


def card_options(command: _Command) -> _Command:
    """Add options for the cards to check: `card`, `node`, `kubeconfig`, `driver_version`, `driver_cuda_version`."""
    for option in (
        click.option(
            "--driver-cuda-version",
            metavar="VERSION",
            help="Newest CUDA version that the cards' NVIDIA driver supports (see nvidia-smi), e.g. 12.4.",
        ),
        click.option(
            "--driver-version", metavar="VERSION", help="Version of the cards' NVIDIA driver, e.g. 550.54.14."
        ),
        click.option(
            "--kubeconfig",
            type=EXISTING_FILE,
            help="Kubeconfig of the cluster, for --node (default: KUBECONFIG, else ~/.kube/config).",
        ),
        click.option("--node", help="Check against the cards in the inventory of this node."),
        click.option(
            "--card",
            multiple=True,
            metavar="BACKEND:ARCH[=PRODUCT]",
            help="Check against a card of this kind, e.g. cuda:90 or hip:gfx942; repeatable.",
        ),
    ):
        command = option(command)
    return command


def workload_options(command: _Command) -> _Command:
    """Add options for the versions of the workload: `triton_version`, `torch_cuda_version`, `vllm_cache_hash`."""
    for option in (
        click.option(
            "--vllm-cache-hash",
            metavar="HASH",
            help="Folder in torch_compile_cache that the workload's vLLM uses.",
        ),
        click.option(
            "--torch-cuda-version",
            metavar="VERSION",
            help="CUDA version of the workload's PyTorch (torch.version.cuda).",
        ),
        click.option(
            "--triton-version", metavar="VERSION", help="Triton version of the workload (triton.__version__)."
        ),
    ):
        command = option(command)
    return command


def read_settings(options: dict[str, Any]) -> RegistrySettings:
    """Remove the values of `registry_options` from `options`, and return the settings."""
    return RegistrySettings.of_options(
        plain_http=options.pop("plain_http"),
        ca_file=options.pop("registry_ca"),
        mirrors=options.pop("mirror"),
        configs=options.pop("registry_config"),
    )


def read_policies(options: dict[str, Any]) -> SignerPolicies | None:
    """Remove `policy` and `trusted_root` from `options`, and return the policies; None without a policy."""
    policy, trusted_root = options.pop("policy"), options.pop("trusted_root")
    return load_policies(policy, trusted_root) if policy is not None else None


async def read_cards(options: dict[str, Any]) -> NodeHardware | None:
    """Remove the values of `card_options` from `options`, and return the cards; None if no cards are specified."""
    cards, node, kubeconfig = options.pop("card"), options.pop("node"), options.pop("kubeconfig")
    if node and cards:
        raise click.UsageError("specify --node or --card")
    driver = {name: options.pop(name) for name in ("driver_version", "driver_cuda_version")}
    return await resolve_cards(cards, node, kubeconfig, **driver)


def read_workload(options: dict[str, Any], node: NodeHardware | None) -> WorkloadFacts:
    """Remove the values of `workload_options` from `options`, and return the workload."""
    stated = {name: options.pop(name) for name in ("triton_version", "torch_cuda_version", "vllm_cache_hash")}
    return parse_workload(node, **stated)


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command's coroutine; exit with code 3 if the image could be neither accepted nor rejected."""
    try:
        return asyncio.run(work)
    except UnverifiedError as exc:
        click.echo(f"Error: {exc}", err=True)
        for failure in exc.failures if len(exc.failures) > 1 else ():
            click.echo(f"  {failure}", err=True)
        sys.exit(UNKNOWN if exc.reason.retryable else 1)
    except ApiError as exc:
        click.echo(f"Error: {exc}", err=True)
        sys.exit(UNKNOWN if exc.unanswered else 1)
    except RegistryError as exc:
        click.echo(f"Error: {exc}", err=True)
        sys.exit(UNKNOWN if exc.retryable else 1)
