#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_verify
short_description: Verify the signers of a kernel cache image
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Verifies that the signatures of an image satisfy each signer policy that covers the image, and returns the digest.
  - Fails if the signatures do not satisfy a policy, or if no policy covers the image.
  - If cards are given, the module also returns whether these cards can use the cache. It does not fail if none of the
    cards can use the cache.
  - The signatures apply to the digest. In later tasks, use the returned RV(image), because a tag can be moved.
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._registry.policy
  - accelkit.kubernetes._registry.cards
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._registry.workload
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_both
attributes:
  check_mode:
    support: full
    details: The module does not change anything.
  diff_mode:
    support: none
    details: The module does not change anything.
options:
  image:
    description:
      - The image, by tag or digest.
    type: str
    required: true
  policy:
    description:
      - Path of the signer policies, as YAML. Without a policy, no image is trusted.
    type: path
    required: true
seealso:
  - module: accelkit.kubernetes.cache_extract
"""

EXAMPLES = r"""
- name: Verify that the pipeline signed the cache
  accelkit.kubernetes.cache_verify:
    image: quay.io/acme/llama-cache:v1
    policy: /etc/accelkit/signers.yaml
  register: cache

- name: Print the verified image
  ansible.builtin.debug:
    var: cache.image
"""

RETURN = r"""
image:
  description: The image with the verified digest. If the image is rejected, this is the value of O(image).
  returned: always
  type: str
  sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
digest:
  description: The verified digest. The value is null if the image is rejected.
  returned: always
  type: str
  sample: sha256:5f0c…
verified:
  description: Whether the image satisfies the policies.
  returned: always
  type: bool
signatures:
  description: For each policy that covers the image, the signature that satisfies it.
  returned: success
  type: list
  elements: dict
  contains:
    policy:
      description: Name of the policy.
      type: str
      sample: acme
    signer:
      description: Name of the signer in the policy.
      type: str
      sample: ci
    format:
      description: Format of the signature, V(cosign-v2) or V(cosign-v3).
      type: str
      sample: cosign-v3
    identity:
      description: Subject of the certificate, or digest of the public key.
      type: str
      sample: https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main
    issuer:
      description: Issuer that authenticated the identity. The value is empty for a key.
      type: str
      sample: https://token.actions.githubusercontent.com
    log_index:
      description: Index of the entry in the transparency log. The value is null if no entry was verified.
      type: int
      sample: 1234
    signed_at:
      description: Time of the signature, in RFC 3339 format. The value is null if the time could not be verified.
      type: str
      sample: "2026-06-01T12:00:00+00:00"
compatibility:
  description: Whether the cards can use the cache. The value is null if no cards were given.
  returned: success
  type: dict
  contains:
    fit:
      description: How many of the cards can use the cache, V(all), V(some), V(none) or V(unknown).
      type: str
      sample: all
    reasons:
      description: Reasons that apply to all cards.
      type: list
      elements: str
    cards:
      description:
        - The result for each card, with C(id), C(verdict), C(reasons), and the likelihood of a C(hit).
        - C(factors) lists the values that determine the likelihood, each with C(name), C(agrees) and C(message).
          C(agrees) is null if one of the compared values is unknown.
      type: list
      elements: dict
reason:
  description:
    - Reason why no signature is accepted, as an identifier that the guide to signer policies explains, for example
      V(NoSignatures), V(IdentityMismatch) or V(NotCovered).
    - If several signatures are rejected, this is the reason for the failure that occurred in the latest verification
      step.
  returned: if the image is rejected
  type: str
  sample: IdentityMismatch
failures:
  description: Reason why each signature is not accepted.
  returned: if the image is rejected
  type: list
  elements: dict
  contains:
    reason:
      description: The reason as an identifier.
      type: str
      sample: IdentityMismatch
    message:
      description: The reason as a sentence.
      type: str
      sample: the certificate is for mallory@example.org
    source:
      description: Location of the signature. The value is empty if the failure applies to all signatures.
      type: str
      sample: bundle sha256:…
    signer:
      description: Signer in the policy. The value is empty if the failure applies to all signers.
      type: str
      sample: ci
retryable:
  description: Whether a retry can succeed, because a registry or a trusted root was temporarily unavailable.
  returned: failure
  type: bool
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    CARD_ARGUMENTS,
    POLICY_ARGUMENTS,
    WORKLOAD_ARGUMENTS,
    cache_module,
    finish,
    read_cards,
    read_policies,
    read_settings,
    read_workload,
    to_builtins,
)

# If accelkit is missing, _registry reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.kernelcache.compatibility.verdicts import judge
    from accelkit.kernelcache.formats.cache_image import read_cache_image
    from accelkit.kernelcache.oci.reference import parse_reference
    from accelkit.kernelcache.registry import RegistryClient
    from accelkit.kernelcache.signatures import verify_image
    from accelkit.kernelcache.views import describe_verification


async def verify(module):
    given = module.params
    reference, policies = parse_reference(given["image"]), read_policies(module)
    node = await read_cards(module)
    workload, verdicts = read_workload(module, node), None
    async with RegistryClient(read_settings(module)) as client:
        verification = await verify_image(client, reference, policies, namespace=given["namespace"] or None)
        if node is not None:
            raw = await client.read_manifest(verification.image)
            verdicts = judge((await read_cache_image(client, verification.image, raw)).labels, node, workload)
    view = to_builtins(describe_verification(str(verification.image), verification, verdicts))
    returned = ("image", "digest", "verified", "signatures", "compatibility")
    return {"changed": False, **{name: view[name] for name in returned}}


def main():
    module = cache_module(
        image={"type": "str", "required": True},
        **{**POLICY_ARGUMENTS, "policy": {"type": "path", "required": True}},
        **CARD_ARGUMENTS,
        **WORKLOAD_ARGUMENTS,
    )
    finish(module, verify)


if __name__ == "__main__":
    main()
