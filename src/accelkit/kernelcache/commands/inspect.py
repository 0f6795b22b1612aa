"""`accelkit cache inspect`."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.options import (
    card_options,
    read_cards,
    read_settings,
    read_workload,
    registry_options,
    run,
    workload_options,
)
from accelkit.kernelcache.compatibility.verdicts import judge
from accelkit.kernelcache.formats import Target
from accelkit.kernelcache.formats.cache_image import read_cache_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.views import CompatibilityView, ImageView, describe_image
from accelkit.model.units import format_bytes
from accelkit.output import list_fields, output_option, print_value

_FITS = {
    "all": "all of the cards",
    "some": "some of the cards",
    "none": "none of the cards",
    "unknown": "unknown; facts are missing",
}
_HITS = {
    "likely": "will likely hit",
    "arch-only": "may hit; not all factors are known",
    "miss": "will not hit",
    "unknown": "unknown whether it hits",
}


@click.command("inspect", short_help="Show the properties of an image's cache.")
@click.argument("image")
@card_options
@workload_options
@registry_options
@output_option
def inspect(image: str, *, output: str, **options: Any) -> None:
    """Show the properties of IMAGE, whether its cache fits given cards, and how likely a workload is to hit the cache.

    The command fetches no layer and verifies no signature.
    """
    view = run(_inspect(image, options))
    print_value(view, output, lambda: _render(view))


async def _inspect(text: str, options: dict[str, Any]) -> ImageView:
    reference = parse_reference(text)
    node = await read_cards(options)
    workload = read_workload(options, node)
    async with RegistryClient(read_settings(options)) as client:
        raw = await client.read_manifest(reference)
        image = await read_cache_image(client, reference.with_digest(raw.digest), raw)
    return describe_image(image, raw.digest, judge(image.labels, node, workload) if node is not None else None)


def _render(view: ImageView) -> RenderableType:
    versions = ", ".join(
        (*(f"Triton {each}" for each in view.triton_versions), *(f"CUDA {each}" for each in view.cuda_versions))
    )
    fields = [
        ("image", view.image),
        ("format", " ".join((view.format, *(f"({each})" for each in view.cache_formats)))),
        ("size", f"{format_bytes(view.compressed_bytes)} in the registry, {_format_size(view.cache_bytes)} extracted"),
        ("entries", "not stated" if view.entries is None else str(view.entries)),
        ("made for", "; ".join(map(_describe_target, view.targets)) or "not stated"),
        ("made with", versions or "not stated"),
        ("card", view.gpu_product or "not stated"),
        ("launchers", f"for {view.cpu_architecture}" if view.cpu_architecture else "none, or not stated"),
        *list_fit_fields(view.compatibility),
    ]
    return Group(*list_fields(fields), *list_card_lines(view.compatibility))


def list_fit_fields(view: CompatibilityView | None) -> list[tuple[str, str]]:
    """Return the output field that contains the number of cards that a cache fits; empty if no cards were specified."""
    return [("fits", _FITS[view.fit])] if view is not None else []


def list_card_lines(view: CompatibilityView | None) -> list[Text]:
    """Return the lines that describe each card, which follow the field `fits` in table output."""
    if view is None:
        return []
    colours = {"compatible": "green", "incompatible": "red", "unknown": "yellow"}
    lines = [Text(f"  {each}") for each in view.reasons]
    for card in view.cards:
        lines.append(Text(f"  {card.id}: {card.verdict}, {_HITS[card.hit]}", style=colours.get(card.verdict, "")))
        lines += [Text(f"    {each}") for each in card.reasons]
        # The reasons already include the factors that differ.
        lines += [Text(f"    {each.message}") for each in card.factors if each.agrees is not False]
    return lines


def _describe_target(target: Target) -> str:
    warp = f", {target.warp_size} threads per warp" if target.warp_size else ""
    return f"{target.backend} {target.arch or 'of any architecture'}{warp}"


def _format_size(size: int | None) -> str:
    return "unknown size" if size is None else format_bytes(size)
