"""`accelkit cache verify`."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.options import (
    UNKNOWN,
    policies_of,
    policy_options,
    registry_options,
    run,
    settings_of,
)
from accelkit.kernelcache.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, verify_image
from accelkit.kernelcache.views import VerificationView, refusal_view, verification_view
from accelkit.output import output_option, print_value


@click.command("verify", short_help="Check who signed an image.")
@click.argument("image")
@policy_options
@registry_options
@output_option
def verify(image: str, *, output: str, namespace: str, **options: Any) -> None:
    """Check that IMAGE is signed as every policy that covers it demands, and print its digest.

    Use the digest from then on: tags move.
    """
    policies = policies_of(options)
    if policies is None:
        raise click.UsageError("give --policy: nothing is trusted without a policy")
    view = run(_verify(settings_of(options), image, policies, namespace))
    print_value(view, output, lambda: _table(view))
    if not view.verified:
        sys.exit(UNKNOWN if view.retryable else 1)


async def _verify(settings: RegistrySettings, image: str, policies: SignerPolicies, namespace: str) -> VerificationView:
    reference = parse_reference(image)
    async with RegistryClient(settings) as client:
        try:
            verification = await verify_image(client, reference, policies, namespace=namespace)
        except UnverifiedError as exc:
            return refusal_view(str(reference), exc)
    return verification_view(str(reference), verification)


def _table(view: VerificationView) -> RenderableType:
    if not view.verified:
        lines = [Text(f"Refused: {view.message}", style="red")]
        lines += [Text(f"  {_where(each.source)}{each.reason}: {each.message}") for each in view.failures]
        return Group(*lines)
    lines = [Text(f"Verified: {view.image}", style="green"), Text(f"  digest  {view.digest}")]
    for each in view.signatures:
        issuer = f", vouched for by {each.issuer}" if each.issuer else ""
        log = f", log entry {each.log_index}" if each.log_index is not None else ", no log entry"
        at = f", signed {each.signed_at}" if each.signed_at else ""
        lines.append(Text(f"  policy  {each.policy}: {each.identity}{issuer}{log}{at} ({each.format})"))
    return Group(*lines)


def _where(source: str) -> str:
    return f"{source}: " if source else ""
