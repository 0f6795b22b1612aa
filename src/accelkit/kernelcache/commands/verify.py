"""`accelkit cache verify`."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.inspect import describe_fit
from accelkit.kernelcache.commands.options import (
    UNKNOWN,
    card_options,
    policy_options,
    read_cards,
    read_policies,
    read_settings,
    read_workload,
    registry_options,
    run,
    workload_options,
)
from accelkit.kernelcache.compatibility.verdicts import judge
from accelkit.kernelcache.formats.cache_image import read_cache_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, verify_image
from accelkit.kernelcache.views import VerificationView, describe_refusal, describe_verification
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
    policies = read_policies(options)
    if policies is None:
        raise click.UsageError("give --policy: nothing is trusted without a policy")
    view = run(_verify(image, policies, namespace, options))
    print_value(view, output, lambda: _table(view))
    if not view.verified:
        sys.exit(UNKNOWN if view.retryable else 1)


async def _verify(image: str, policies: SignerPolicies, namespace: str, options: dict[str, Any]) -> VerificationView:
    reference = parse_reference(image)
    node = await read_cards(options)
    workload = read_workload(options, node)
    async with RegistryClient(read_settings(options)) as client:
        try:
            verification = await verify_image(client, reference, policies, namespace=namespace)
        except UnverifiedError as exc:
            return describe_refusal(str(reference), exc)
        if node is None:
            return describe_verification(str(reference), verification)
        raw = await client.manifest(verification.image)
        labels = (await read_cache_image(client, verification.image, raw)).labels
    return describe_verification(str(reference), verification, judge(labels, node, workload))


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
    return Group(*lines, *describe_fit(view.compatibility, heading="  fits   "))


def _where(source: str) -> str:
    return f"{source}: " if source else ""
