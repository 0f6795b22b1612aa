"""`accelkit cache verify`."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.inspect import compatibility_lines
from accelkit.kernelcache.commands.options import (
    UNKNOWN,
    card_options,
    node_of,
    policies_of,
    policy_options,
    registry_options,
    run,
    settings_of,
    workload_of,
    workload_options,
)
from accelkit.kernelcache.compatibility.verdicts import judge
from accelkit.kernelcache.images import read_cache_image
from accelkit.kernelcache.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, verify_image
from accelkit.kernelcache.views import VerificationView, refusal_view, verification_view
from accelkit.output import output_option, print_value


@click.command("verify", short_help="Check who signed an image.")
@click.argument("image")
@policy_options
@card_options
@workload_options
@registry_options
@output_option
def verify(image: str, *, output: str, namespace: str, **options: Any) -> None:
    """Check that IMAGE is signed as every policy that covers it demands, and print its digest.

    Use the digest from then on: tags move. With cards given, it is told too whether they can use the cache; the exit
    code is that of the signatures.
    """
    policies = policies_of(options)
    if policies is None:
        raise click.UsageError("give --policy: nothing is trusted without a policy")
    view = run(_verify(image, policies, namespace, options))
    print_value(view, output, lambda: _table(view))
    if not view.verified:
        sys.exit(UNKNOWN if view.retryable else 1)


async def _verify(image: str, policies: SignerPolicies, namespace: str, options: dict[str, Any]) -> VerificationView:
    reference = parse_reference(image)
    node = await node_of(options)
    workload = workload_of(options, node)
    async with RegistryClient(settings_of(options)) as client:
        try:
            verification = await verify_image(client, reference, policies, namespace=namespace)
        except UnverifiedError as exc:
            return refusal_view(str(reference), exc)
        if node is None:
            return verification_view(str(reference), verification)
        raw = await client.manifest(verification.image)
        labels = (await read_cache_image(client, verification.image, raw)).labels
    return verification_view(str(reference), verification, judge(labels, node, workload))


def _table(view: VerificationView) -> RenderableType:
    if not view.verified:
        word, colour = ("Unknown", "yellow") if view.retryable else ("Refused", "red")
        lines = [Text(f"{word}: {view.message}", style=colour)]
        # One alone is in the message already.
        failures = view.failures if len(view.failures) > 1 else ()
        lines += [Text(f"  {_where(each.source)}{each.reason}: {each.message}") for each in failures]
        return Group(*lines)
    lines = [Text(f"Verified: {view.image}", style="green"), Text(f"  digest  {view.digest}")]
    for each in view.signatures:
        issuer = f", vouched for by {each.issuer}" if each.issuer else ""
        log = f", log entry {each.log_index}" if each.log_index is not None else ", no log entry"
        at = f", signed {each.signed_at}" if each.signed_at else ""
        key = "" if each.issuer or not each.identity.startswith("sha256:") else "key "
        who = f"{each.signer} of policy {each.policy}: {key}{each.identity}"
        lines.append(Text(f"  signer  {who}{issuer}{log}{at} ({each.format})"))
    return Group(*lines, *compatibility_lines(view.compatibility, heading="  fits   "))


def _where(source: str) -> str:
    return f"{source}: " if source else ""
