"""`accelkit cache extract`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.inspect import list_card_lines, list_fit_fields
from accelkit.kernelcache.commands.options import (
    UNKNOWN,
    card_options,
    policy_options,
    read_cards,
    read_policies,
    read_settings,
    registry_options,
    run,
)
from accelkit.kernelcache.extraction import ExtractionRequest, Limits, extract_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError
from accelkit.kernelcache.views import ExtractionView, VerificationView, describe_extraction, describe_refusal
from accelkit.model.units import format_bytes
from accelkit.output import Format, list_fields, output_option, print_value


@click.command("extract", short_help="Verify an image and extract its cache to the disk.")
@click.argument("image")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--mount-path", help="Path at which workloads mount the cache (default: the path of the extraction).")
@click.option("--insecure-skip-signatures", is_flag=True, help="Extract without verifying signatures.")
@click.option(
    "--max-gib",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Maximum size of the extracted cache in GiB.",
)
@click.option(
    "--verdict-ttl",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Maximum age of an earlier verification (default: the time that the policies state).",
)
@policy_options
@card_options
@registry_options
@output_option
def extract(image: str, folder: Path, *, output: str, insecure_skip_signatures: bool, **options: Any) -> None:
    """Verify IMAGE and extract its cache once, to a subfolder of FOLDER that is named after the digest.

    If you specify cards, an image that fits none of them is rejected before its layer is fetched. If its signatures are
    rejected, JSON and YAML output has the same fields as the output of `verify`.
    """
    policies = read_policies(options)
    if (policies is None) != insecure_skip_signatures:
        raise click.UsageError("specify either --policy or --insecure-skip-signatures")
    view = run(_extract(image, folder, policies, options, structured=output != Format.TABLE))
    if isinstance(view, VerificationView):
        print_value(view, output, lambda: Text(view.message))
        sys.exit(UNKNOWN if view.retryable else 1)
    print_value(view, output, lambda: _render(view))


async def _extract(
    image: str, folder: Path, policies: SignerPolicies | None, options: dict[str, Any], *, structured: bool
) -> ExtractionView | VerificationView:
    """Extract the cache. If `structured` is set, return a rejection as a result instead of raising an error."""
    request = ExtractionRequest(
        image=parse_reference(image),
        base=folder,
        policies=policies,
        namespace=options.pop("namespace") or None,
        mount_path=options.pop("mount_path"),
        verdict_ttl_seconds=options.pop("verdict_ttl"),
        limits=Limits.of_gib(options.pop("max_gib")),
        node=await read_cards(options),
    )
    async with RegistryClient(read_settings(options)) as client:
        try:
            return describe_extraction(await extract_image(client, request))
        except UnverifiedError as exc:
            if not structured:
                raise
            return describe_refusal(str(request.image), exc)


def _render(view: ExtractionView) -> RenderableType:
    done = "Extracted" if view.changed else "Already extracted"
    fields: list[tuple[str, str | Text]] = [
        ("path", view.path),
        ("mount path", view.mount_path),
        ("cache", f"{view.files} files, {format_bytes(view.bytes)} ({view.format})"),
        *(("signed", each) for each in view.signatures),
    ]
    if not view.signatures:
        fields.append(("signed", Text("not checked", style="yellow")))
    fields += list_fit_fields(view.compatibility)
    return Group(
        Text(f"{done}: {view.image}", style="green"),
        *list_fields(fields, indent=2, gap=1),
        *list_card_lines(view.compatibility),
    )
