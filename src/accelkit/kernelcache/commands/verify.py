"""`accelkit cache verify`."""

from __future__ import annotations

import sys
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
from accelkit.kernelcache.views import SignatureView, VerificationView, describe_refusal, describe_verification
from accelkit.output import list_fields, output_option, print_value


@click.command("verify", short_help="Verify the signatures of an image.")
@click.argument("image")
@policy_options
@card_options
@workload_options
@registry_options
@output_option
def verify(image: str, *, output: str, namespace: str | None, **options: Any) -> None:
    """Verify that the signatures of IMAGE satisfy each policy that covers it, and print its digest.

    Use the digest afterwards, because tags can change. If you specify cards, the output also shows whether they can use
    the cache. The exit code depends only on the signatures.
    """
    policies = read_policies(options)
    if policies is None:
        raise click.UsageError("specify --policy: no image is trusted without a policy")
    view = run(_verify(image, policies, namespace, options))
    print_value(view, output, lambda: _render(view))
    if not view.verified:
        sys.exit(UNKNOWN if view.retryable else 1)


async def _verify(
    image: str, policies: SignerPolicies, namespace: str | None, options: dict[str, Any]
) -> VerificationView:
    reference = parse_reference(image)
    node = await read_cards(options)
    workload = read_workload(options, node)
    async with RegistryClient(read_settings(options)) as client:
        try:
            verification = await verify_image(client, reference, policies, namespace=namespace or None)
        except UnverifiedError as exc:
            return describe_refusal(str(reference), exc)
        if node is None:
            return describe_verification(str(reference), verification)
        raw = await client.read_manifest(verification.image)
        labels = (await read_cache_image(client, verification.image, raw)).labels
    return describe_verification(str(reference), verification, judge(labels, node, workload))


def _render(view: VerificationView) -> RenderableType:
    if not view.verified:
        word, colour = ("Unknown", "yellow") if view.retryable else ("Refused", "red")
        lines = [Text(f"{word}: {view.message}", style=colour)]
        # If there is only one failure, the message already contains it.
        failures = view.failures if len(view.failures) > 1 else ()
        lines += [Text(f"  {_prefix(each.source)}{each.reason}: {each.message}") for each in failures]
        return Group(*lines)
    fields = [("digest", view.digest or ""), *(("signer", _describe(each)) for each in view.signatures)]
    fields += list_fit_fields(view.compatibility)
    return Group(
        Text(f"Verified: {view.image}", style="green"),
        *list_fields(fields, indent=2),
        *list_card_lines(view.compatibility),
    )


def _describe(signature: SignatureView) -> str:
    issuer = f", issued by {signature.issuer}" if signature.issuer else ""
    log = f", log entry {signature.log_index}" if signature.log_index is not None else ", no log entry"
    at = f", signed {signature.signed_at}" if signature.signed_at else ""
    key = "" if signature.issuer or not signature.identity.startswith("sha256:") else "key "
    signer = f"{signature.signer} of policy {signature.policy}: {key}{signature.identity}"
    return f"{signer}{issuer}{log}{at} ({signature.format})"


def _prefix(source: str) -> str:
    return f"{source}: " if source else ""
