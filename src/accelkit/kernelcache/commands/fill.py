"""`accelkit cache fill`, which the Jobs of the cache controller run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelkit.kernelcache.commands.options import (
    policy_options,
    read_policies,
    read_settings,
    registry_options,
    run,
)
from accelkit.kernelcache.extraction import CompletionRecord, ExtractionRequest, Limits
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.volumes import check_volume, fill_volume
from accelkit.model.units import format_bytes


@click.command("fill", short_help="Fill a dedicated volume with one verified cache.")
@click.argument("image")
@click.argument("volume", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("--mount-path", required=True, help="Path at which pods mount the volume.")
@click.option("--check", is_flag=True, help="Only check the volume; fail if it is not filled with IMAGE.")
@click.option(
    "--max-gib",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Maximum size of the extracted cache in GiB.",
)
@policy_options
@registry_options
def fill(image: str, volume: Path, *, mount_path: str, check: bool, max_gib: int, **options: Any) -> None:
    """Verify IMAGE, given by digest, and extract its cache to the root of VOLUME, which must be empty.

    Pods that mount the volume at the mount path find the files of the cache there. The command does not change a volume
    that is already filled. The Jobs of the cache controller run this command. To extract a cache yourself, use
    `accelkit cache extract`.
    """
    policies, settings = read_policies(options), read_settings(options)
    reference = parse_reference(image)
    if check:
        record = check_volume(volume, reference.require_digest(), mount_path)
    elif policies is None:
        raise click.UsageError("specify --policy: no image is trusted without a policy")
    else:
        request = ExtractionRequest(
            image=reference,
            base=volume,
            policies=policies,
            namespace=options["namespace"] or None,
            mount_path=mount_path,
            limits=Limits.of_gib(max_gib),
        )

        async def work() -> CompletionRecord:
            async with RegistryClient(settings) as client:
                return await fill_volume(client, request)

        record = run(work())
    click.echo(f"Filled: {record.image}, {record.files} files, {format_bytes(record.size_bytes)}")
