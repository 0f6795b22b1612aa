"""Options that several commands share: how registries are reached, who may sign, which cards it is for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from accelkit.command_options import EXISTING_FILE, trusted_root_option
from accelkit.errors import ApiError, RegistryError
from accelkit.kernelcache.compatibility.arguments import parse_workload, resolve_cards
from accelkit.kernelcache.compatibility.node_facts import NodeFacts, WorkloadFacts
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, load_policies

_Result = TypeVar("_Result")
_Command = Callable[..., Any]

# Nothing was learnt about the image: the registry or the trusted root was not there.
UNKNOWN = 3


def registry_options(command: _Command) -> _Command:
    """How registries are reached; arrives as `plain_http`, `registry_ca`, `mirror` and `registry_config`."""
    for option in (
        click.option(
            "--registry-config",
            *("registry_config",),
            type=EXISTING_FILE,
            multiple=True,
            help="Log-ins, as Docker's config.json or a pull secret's file; default: those of Docker's user.",
        ),
        click.option(
            "--mirror", multiple=True, metavar="REGISTRY=HOST[/PREFIX]", help="Ask HOST before REGISTRY; repeatable."
        ),
        click.option("--registry-ca", type=EXISTING_FILE, help="PEM file of authorities trusted beside the system's."),
        click.option(
            "--plain-http",
            multiple=True,
            metavar="HOST[:PORT]",
            help="Registry to be spoken to without TLS, named as in the image's reference; repeatable.",
        ),
    ):
        command = option(command)
    return command


def policy_options(command: _Command) -> _Command:
    """Who may sign; arrives as `policy`, `trusted_root` and `namespace`."""
    for option in (
        click.option("--namespace", help="Namespace for which the policies are asked."),
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
    """Which cards a cache is for; arrives as `card`, `node`, `kubeconfig` and the driver's two versions."""
    for option in (
        click.option(
            "--driver-cuda-version",
            metavar="VERSION",
            help="Newest CUDA that the cards' NVIDIA driver supports, as nvidia-smi shows it, e.g. 12.4.",
        ),
        click.option("--driver-version", metavar="VERSION", help="The cards' NVIDIA driver, e.g. 550.54.14."),
        click.option(
            "--kubeconfig",
            type=EXISTING_FILE,
            help="Kubeconfig of the cluster, for --node. Default: KUBECONFIG, else ~/.kube/config.",
        ),
        click.option("--node", help="Judge against the cards of this node, as its inventory tells them."),
        click.option(
            "--card",
            multiple=True,
            metavar="BACKEND:ARCH[=PRODUCT]",
            help="Judge against such a card, e.g. cuda:90 or hip:gfx942; repeatable.",
        ),
    ):
        command = option(command)
    return command


def workload_options(command: _Command) -> _Command:
    """Add options for the versions that use the cache: `triton_version`, `torch_cuda_version`, `vllm_cache_hash`."""
    for option in (
        click.option(
            "--vllm-cache-hash",
            metavar="HASH",
            help="Folder in torch_compile_cache that the workload's vLLM looks for.",
        ),
        click.option(
            "--torch-cuda-version", metavar="VERSION", help="CUDA of the workload's PyTorch (torch.version.cuda)."
        ),
        click.option("--triton-version", metavar="VERSION", help="The workload's Triton (triton.__version__)."),
    ):
        command = option(command)
    return command


def read_settings(options: dict[str, Any]) -> RegistrySettings:
    """Return the settings that `registry_options` make and take them out of `options`."""
    return RegistrySettings.of_options(
        plain_http=options.pop("plain_http"),
        ca_file=options.pop("registry_ca"),
        mirrors=options.pop("mirror"),
        configs=options.pop("registry_config"),
    )


def read_policies(options: dict[str, Any]) -> SignerPolicies | None:
    """Return the policies that `policy_options` name and take them out of `options`; None where none are given."""
    policy, trusted_root = options.pop("policy"), options.pop("trusted_root")
    return load_policies(policy, trusted_root) if policy is not None else None


async def read_cards(options: dict[str, Any]) -> NodeFacts | None:
    """Return the cards that `card_options` name and take them out of `options`; None where none are given."""
    cards, node, kubeconfig = options.pop("card"), options.pop("node"), options.pop("kubeconfig")
    if node and cards:
        raise click.UsageError("give --node or --card")
    driver = {name: options.pop(name) for name in ("driver_version", "driver_cuda_version")}
    return await resolve_cards(cards, node, kubeconfig, **driver)


def read_workload(options: dict[str, Any], node: NodeFacts | None) -> WorkloadFacts:
    """Return the workload that `workload_options` describe and take them out of `options`."""
    stated = {name: options.pop(name) for name in ("triton_version", "torch_cuda_version", "vllm_cache_hash")}
    return parse_workload(node, **stated)


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command's work; what could not be learnt ends with exit code 3."""
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
