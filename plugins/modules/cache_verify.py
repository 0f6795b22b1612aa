#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_verify
short_description: Check who signed an image of a kernel cache
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Checks that an image is signed as every signer policy that covers it demands, and returns its digest.
  - Fails if it is not, and if no policy covers it.
  - With cards given, also reports whether they can use the cache. An image that fits none of them does not fail here.
  - The digest is what is verified. Use the returned C(image) afterwards, since tags move.
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
    details: It changes nothing.
  diff_mode:
    support: none
    details: It changes nothing.
options:
  image:
    description:
      - The image, by tag or digest.
    type: str
    required: true
  policy:
    description:
      - Path of the signer policies, as YAML. Nothing is trusted without one.
    type: path
    required: true
seealso:
  - module: accelkit.kubernetes.cache_extract
"""

EXAMPLES = r"""
- name: Check that our pipeline signed the cache
  accelkit.kubernetes.cache_verify:
    image: quay.io/acme/llama-cache:v1
    policy: /etc/accelkit/signers.yaml
  register: cache

- name: Show what was verified
  ansible.builtin.debug:
    var: cache.image
"""

RETURN = r"""
image:
  description: The image with the digest that was verified; as it was given where it is refused.
  returned: always
  type: str
  sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
digest:
  description: The digest that was verified; null where it is refused.
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
      description: Name of the signer in it.
      type: str
      sample: ci
    format:
      description: V(cosign-v2) or V(cosign-v3).
      type: str
      sample: cosign-v3
    identity:
      description: The certificate's subject, or the digest of the public key.
      type: str
      sample: https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main
    issuer:
      description: Who vouched for the identity; empty for a key.
      type: str
      sample: https://token.actions.githubusercontent.com
    log_index:
      description: Place in the transparency log; null where no entry was verified.
      type: int
      sample: 1234
    signed_at:
      description: When it was signed, in RFC 3339; null where nothing proves it.
      type: str
      sample: "2026-06-01T12:00:00+00:00"
compatibility:
  description: >-
    Whether the cards can use the cache; null where no cards were given.
  returned: success
  type: dict
  contains:
    fit:
      description: V(all), V(some), V(none) or V(unknown).
      type: str
      sample: all
    reasons:
      description: What concerns all cards.
      type: list
      elements: str
    cards:
      description:
        - For each card its C(id), its C(verdict), how likely a C(hit) is, and the C(reasons).
        - In C(factors) is what the likelihood was judged by, each with C(name), C(agrees) and C(message);
          C(agrees) is null where not both sides are known.
      type: list
      elements: dict
reason:
  description:
    - Why no signature counts, in one word as in the guide to signer policies, such as V(NoSignatures),
      V(IdentityMismatch) or V(NotCovered).
    - The failure that came nearest to success is reported.
  returned: when the image is refused
  type: str
  sample: IdentityMismatch
failures:
  description: Why each signature does not count.
  returned: when the image is refused
  type: list
  elements: dict
  contains:
    reason:
      description: The word.
      type: str
      sample: IdentityMismatch
    message:
      description: The sentence.
      type: str
      sample: the certificate is for mallory@example.org
    source:
      description: Where the signature was found; empty where it concerns all.
      type: str
      sample: bundle sha256:…
    signer:
      description: For which signer of the policy; empty where it concerns all.
      type: str
      sample: ci
retryable:
  description: >-
    Whether nothing was learnt, because a registry or a trusted root was not there, so that trying again may help.
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

# _registry reports a missing accelkit before anything of this is called.
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
