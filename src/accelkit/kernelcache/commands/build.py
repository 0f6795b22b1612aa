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


@click.command("build", short_help="Build an image of a cache folder and push it.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("image")
@click.option("--no-push", is_flag=True, help="Build and report the image without pushing it.")
@click.option(
    "--compression",
    type=click.Choice(["gzip", "zstd", "none"]),
    default="gzip",
    show_default=True,
    help="Compression of the layer. MCV reads only gzip.",
)
@click.option(
    "--media", type=click.Choice(["oci", "docker"]), default="oci", show_default=True, help="Family of media types."
)
@click.option("--architecture", help="CPU architecture of the native launchers (default: this machine's architecture).")
@click.option(
    "--gpu-product", help="Name of the card on which the cache was compiled, as the vendor's library returns it."
)
@click.option(
    "--built-for",
    metavar="BACKEND:ARCH",
    help="Target of the kernels, if the files of the cache do not state it, e.g. cuda:90.",
)
@click.option(
    "--allow-secrets", is_flag=True, help="Push the image although its files contain variables that look like secrets."
)
@click.option("--sign", is_flag=True, help="Sign the image with cosign, keyless or with --sign-key.")
@click.option("--sign-key", help="Sign the image with this key of cosign: a file, k8s://… or the URI of a key service.")
@click.option("--no-transparency-log", is_flag=True, help="Sign without an entry in the transparency log.")
@click.option("--cosign", "program", default="cosign", show_default=True, help="The cosign program.")
@registry_options
@output_option
def build(folder: Path, image: str, *, output: str, **options: Any) -> None:
    """Build IMAGE from the cache in FOLDER and push it. Builds of the same files are byte-for-byte identical."""
    if (options["sign"] or options["sign_key"]) and options["no_push"]:
        raise click.UsageError("cannot sign an image that is not pushed: remove --no-push")
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
        ("cache", f"{entries} in {view.files} files, {format_bytes(view.cache_bytes)} ({view.format})"),
        ("layer", f"{format_bytes(view.compressed_bytes)}, {format_bytes(view.uploaded_bytes)} sent"),
    ]
    if view.signed:
        fields.append(("signed", "by cosign"))
    if view.secrets:
        warning = f"the files of the cache contain variables that look like secrets: {', '.join(view.secrets)}"
        fields.append(("warning", Text(warning, style="yellow")))
    return Group(Text(f"{done}: {view.image}", style="green"), *list_fields(fields, indent=2))
