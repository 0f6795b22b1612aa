"""`accelkit cache build`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.options import read_settings, registry_options, run
from accelkit.kernelcache.compatibility.arguments import parse_target
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.publishing.layer_writer import Compression, MediaFamily
from accelkit.kernelcache.publishing.signing import Cosign, sign_image
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.views import BuildView, describe_build
from accelkit.model.units import format_bytes
from accelkit.output import list_fields, output_option, print_value


@click.command("build", short_help="Make an image of a cache folder and push it.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("image")
@click.option("--no-push", is_flag=True, help="Only tell what would be pushed.")
@click.option(
    "--compression",
    type=click.Choice(["gzip", "zstd", "none"]),
    default="gzip",
    show_default=True,
    help="MCV reads gzip.",
)
@click.option(
    "--media", type=click.Choice(["oci", "docker"]), default="oci", show_default=True, help="Whose media types to use."
)
@click.option("--architecture", help="CPU of the native launchers; default: this machine's.")
@click.option("--gpu-product", help="Name of the card it was compiled on, as its vendor's library gives it.")
@click.option("--built-for", metavar="BACKEND:ARCH", help="Where the cache's files do not tell, e.g. cuda:90.")
@click.option("--allow-secrets", is_flag=True, help="Push it although its files hold variables that look like secrets.")
@click.option("--sign", is_flag=True, help="Sign it with cosign, as its keyless log-in or as --sign-key says.")
@click.option("--sign-key", help="Sign it with this key of cosign's: a file, k8s://… or a key service's URI.")
@click.option("--no-transparency-log", is_flag=True, help="Sign without an entry of the log.")
@click.option("--cosign", "program", default="cosign", show_default=True, help="The program.")
@registry_options
@output_option
def build(folder: Path, image: str, *, output: str, **options: Any) -> None:
    """Make the image IMAGE of the cache in FOLDER, always the same bytes for the same files, and push it."""
    if (options["sign"] or options["sign_key"]) and options["no_push"]:
        raise click.UsageError("an image is signed where it lies: leave --no-push out")
    view = run(_build(folder, image, options))
    print_value(view, output, lambda: _render(view))


async def _build(folder: Path, image: str, options: dict[str, Any]) -> BuildView:
    reference = parse_reference(image)
    build_options = BuildOptions(
        compression=cast("Compression", options["compression"]),
        media=cast("MediaFamily", options["media"]),
        architecture=options["architecture"],
        gpu_product=options["gpu_product"],
        allow_secrets=options["allow_secrets"],
        built_for=parse_target(options["built_for"]),
    )
    own_logins = bool(options["registry_config"])
    settings = read_settings(options)
    if options["no_push"]:
        return describe_build(str(reference), await build_image(folder, reference, build_options))
    async with RegistryClient(settings) as client:
        built = await build_image(folder, reference, build_options, client)
    if options["sign"] or options["sign_key"]:
        cosign = Cosign(options["program"], options["sign_key"] or None, log=not options["no_transparency_log"])
        await sign_image(reference.with_digest(built.digest), cosign, settings, lend_login=own_logins)
    return describe_build(str(reference), built, signed=bool(options["sign"] or options["sign_key"]))


def _render(view: BuildView) -> RenderableType:
    done = "Pushed" if view.pushed else "Built, not pushed"
    entries = f"{view.entries} {'entry' if view.entries == 1 else 'entries'}"
    fields: list[tuple[str, str | Text]] = [
        ("digest", view.digest),
        ("holds", f"{entries} in {view.files} files, {format_bytes(view.cache_bytes)} ({view.format})"),
        ("layer", f"{format_bytes(view.compressed_bytes)}, {format_bytes(view.uploaded_bytes)} sent"),
    ]
    if view.signed:
        fields.append(("signed", "by cosign"))
    if view.secrets:
        warning = f"the cache's files hold variables that look like secrets: {', '.join(view.secrets)}"
        fields.append(("beware", Text(warning, style="yellow")))
    return Group(Text(f"{done}: {view.image}", style="green"), *list_fields(fields, indent=2))
