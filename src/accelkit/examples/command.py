"""The commands `accelkit examples …`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import click

from accelkit.command_options import FILE, kubeconfig_option
from accelkit.examples.custom import NO_CUSTOM, Custom, read_custom
from accelkit.examples.deployment import ObjectChange, deploy, undeploy
from accelkit.examples.example import (
    SCOPE_WORDS,
    SETS,
    Access,
    CosignVersion,
    Environment,
    Example,
    Gpu,
)
from accelkit.examples.files import clean, render, write_example
from accelkit.examples.objects import build_objects
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


class _OrNone(click.Choice[str]):
    """Choice that treats an empty value as `none`, because scripts may pass an empty value for the environment."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value or Environment.NONE.value, param, ctx)


def _list_values(words: type[StrEnum]) -> list[str]:
    return [each.value for each in words]


def _custom_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        ("--affinity", "CUSTOM_AFFINITY", "the affinity of the cache and the workloads"),
        ("--toleration", "CUSTOM_TOLERATION", "one or more tolerations of the cache and the workloads"),
        *(
            (f"--node-selector-{n}", f"CUSTOM_NODE_SELECTOR_{n}", f"the node selector of workload {n}")
            for n in (1, 2, 3)
        ),
    ]
    for name, variable, content in reversed(options):
        command = click.option(name, envvar=variable, show_envvar=True, type=FILE, help=f"File with {content}.")(
            command
        )
    return command


_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=180.0,
    show_default=True,
    help="Timeout of the whole command in seconds.",
)
_set = click.argument("set_name", metavar="SET", type=click.Choice([*SETS]))


@click.group(short_help="Generate GKM's example manifests.")
def examples() -> None:
    """Generate GKM's example manifests, and deploy them to a cluster."""


@examples.command("generate", short_help="Write the manifests of an example to a file.")
@click.argument("access", metavar="ACCESS", type=click.Choice(_list_values(Access)))
@click.argument("scope", metavar="SCOPE", type=click.Choice([*SCOPE_WORDS]))
@click.argument("gpu", metavar="GPU", type=click.Choice(_list_values(Gpu)))
@click.argument("cosign", metavar="COSIGN", type=click.Choice(_list_values(CosignVersion)))
@click.argument("environment", metavar="[ENV]", type=_OrNone(_list_values(Environment)), default=Environment.NONE.value)
@click.option("--output", type=_FOLDER, default="output", show_default=True, help="Folder of the file.")
@click.option(
    "--debug",
    is_flag=True,
    default=lambda: os.environ.get("DEBUG", "").lower() not in _OFF,
    help="Also print the file.  [env var: DEBUG]",
)
@_custom_options
def generate_command(  # noqa: PLR0917 - click passes arguments by name
    access: str,
    scope: str,
    gpu: str,
    cosign: str,
    environment: str,
    output: Path,
    debug: bool,  # noqa: FBT001 - the same
    **files: Path | None,
) -> None:
    """Write the manifests of one example to a file, and print the path of the file.

    \b
    ACCESS  rox (three Pods mount the cache) or rwo (three DaemonSets mount the cache)
    SCOPE   ns or namespace (a GKMCache); cl or cluster (a ClusterGKMCache and two namespaces)
    GPU     cuda or rocm
    COSIGN  v2 or v3, the version of cosign that signed the image
    ENV     kind, nfd (nodes with labels of Node Feature Discovery) or none

    The files for the options contain the value or a JSON patch, in YAML or JSON, at any indentation.

    \b
    Examples:
      accelkit examples generate rwo namespace rocm v3 kind
      accelkit examples generate rox cluster cuda v2 nfd
      accelkit examples generate rox ns rocm v3
      CUSTOM_AFFINITY=examples/patch/affinity-nfd-rocm.txt DEBUG=true accelkit examples generate rwo ns rocm v3
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    example = Example(Access(access), SCOPE_WORDS[scope], Gpu(gpu), CosignVersion(cosign), Environment(environment))
    text = render(build_objects(example, _read_custom_files(files)))
    path = write_example(text, example, output)
    if debug:
        click.echo(text)
    click.echo(path)


@examples.command("clean", short_help="Delete the files that generate wrote.")
@click.option("--output", type=_FOLDER, default="output", show_default=True, help="Folder of the files.")
def clean_command(output: Path) -> None:
    """Delete only the files with names that `generate` uses."""
    removed = clean(output)
    for path in removed:
        click.echo(f"deleted {path}")
    if not removed:
        click.echo(f"no examples found in {output}")


@examples.command("deploy", short_help="Deploy a set of examples to a cluster.")
@_set
@click.option("--output", type=_FOLDER, help="Also write the files into this folder.")
@_timeout
@kubeconfig_option
@_custom_options
def deploy_command(
    set_name: str, output: Path | None, timeout: float, kubeconfig: Path | None, **files: Path | None
) -> None:
    """Apply the examples of a SET: `kind` (four), `nfd-cuda` or `nfd-rocm` (two each).

    \b
    Examples:
      accelkit examples deploy kind
      accelkit examples deploy nfd-rocm --output output
    """  # noqa: D301 - as above
    objects = []
    for example in SETS[set_name]:
        built = build_objects(example, _read_custom_files(files))
        if output is not None:
            write_example(render(built), example, output)
        objects += built
    _print_changes(_with_cluster(kubeconfig, lambda api: deploy(api, objects, seconds=timeout)))


@examples.command("undeploy", short_help="Delete a set of examples from a cluster.")
@_set
@_timeout
@kubeconfig_option
def undeploy_command(set_name: str, timeout: float, kubeconfig: Path | None) -> None:
    """Delete the examples of a SET and their namespaces, and wait until they are deleted.

    \b
    Example:
      accelkit examples undeploy kind
    """  # noqa: D301 - as above
    objects = [item for example in SETS[set_name] for item in build_objects(example, NO_CUSTOM)]
    _print_changes(_with_cluster(kubeconfig, lambda api: undeploy(api, objects, seconds=timeout)))


def _read_custom_files(files: dict[str, Path | None]) -> Custom:
    selectors = (files["node_selector_1"], files["node_selector_2"], files["node_selector_3"])
    return read_custom(files["affinity"], files["toleration"], selectors)


def _with_cluster(kubeconfig: Path | None, act: Callable[[ApiClient], Any]) -> Sequence[ObjectChange]:
    async def run() -> Sequence[ObjectChange]:
        async with ApiClient(load_connection(kubeconfig)) as api:
            changes: Sequence[ObjectChange] = await act(api)
            return changes

    return asyncio.run(run())


def _print_changes(changes: Sequence[ObjectChange]) -> None:
    for change in changes:
        click.echo(f"{change.outcome} {change.object}")
