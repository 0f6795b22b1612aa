#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_extract
short_description: Verify an image and extract its kernel cache
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Verifies an image, judges it against cards, and extracts its cache into a folder that is named by the digest, once.
  - Nothing is written before a signature holds, and nothing is visible before all bytes are verified.
  - A cache that is there already is verified again where other policies are given, and never extracted again.
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._registry.policy
  - accelkit.kubernetes._registry.cards
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_both
attributes:
  check_mode:
    support: full
    details: >-
      The image is verified and judged, and nothing is written. Whether its layers are valid, and fit on the disk,
      is found out by an extraction only.
  diff_mode:
    support: full
options:
  image:
    description:
      - The image, by tag or digest.
    type: str
    required: true
  folder:
    description:
      - Parent folder of the digest-named folders. It is created if it does not exist.
    type: path
    required: true
  mount_path:
    description:
      - The absolute path at which workloads will see the cache; Triton's group files are rewritten for it.
      - Without it, workloads see it where it is extracted.
      - Each path gets an extraction of its own.
    type: str
  policy:
    description:
      - Path of the signer policies, as YAML.
      - Required, unless O(insecure_skip_signatures=true).
    type: path
  insecure_skip_signatures:
    description:
      - Whether to extract without verifying signatures.
    type: bool
    default: false
  max_gib:
    description:
      - Refuse larger caches, in GiB on the disk.
    type: int
    default: 32
notes:
  - Caches of other digests stay where they are, since workloads may be using them.
seealso:
  - module: accelkit.kubernetes.cache_info
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Extract a cache for workloads that mount it at /home/vllm/.cache/vllm
  accelkit.kubernetes.cache_extract:
    image: quay.io/acme/llama-cache:v1
    folder: /var/lib/accelkit/caches
    mount_path: /home/vllm/.cache/vllm
    policy: /etc/accelkit/signers.yaml
    cards: ["cuda:90"]
  register: cache

- name: Show where it lies
  ansible.builtin.debug:
    var: cache.path
"""

RETURN = r"""
image:
  description: The image with its digest.
  returned: success
  type: str
  sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
digest:
  description: The digest.
  returned: success
  type: str
  sample: sha256:5f0c…
path:
  description: The folder with the framework's files, to be mounted.
  returned: success
  type: str
  sample: /var/lib/accelkit/caches/sha256-5f0c…-1a2b…/cache
mount_path:
  description: Where workloads will see it.
  returned: success
  type: str
  sample: /home/vllm/.cache/vllm
format:
  description: V(triton), V(vllm) or V(habana).
  returned: success
  type: str
  sample: vllm
files:
  description: How many files there are.
  returned: when it lies there
  type: int
  sample: 214
bytes:
  description: Their size.
  returned: when it lies there
  type: int
  sample: 73400320
extracted_at:
  description: When it was extracted, in RFC 3339.
  returned: when it lies there
  type: str
  sample: "2026-06-01T12:00:00+00:00"
signatures:
  description: Who signed it, as sentences; empty where nobody asked.
  returned: success
  type: list
  elements: str
  sample: ["ci@acme.example (cosign-v3, policy acme)"]
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
      description: For each card its C(id), its C(verdict), how likely a C(hit) is, and the C(reasons).
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
from pathlib import Path

from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    CARD_ARGUMENTS,
    POLICY_ARGUMENTS,
    cache_module,
    finish,
    read_cards,
    read_policies,
    read_settings,
    to_builtins,
)

# _registry reports a missing accelkit before anything of this is called.
with suppress(ImportError):
    from accelkit.errors import ConfigurationError
    from accelkit.kernelcache.extraction import ExtractionRequest, Limits, extract_image
    from accelkit.kernelcache.extraction.listing import list_extracted
    from accelkit.kernelcache.extraction.preview import preview_extraction
    from accelkit.kernelcache.oci.reference import parse_reference
    from accelkit.kernelcache.registry import RegistryClient
    from accelkit.kernelcache.views import describe_extraction, describe_preview

RULES = {
    "required_if": [("insecure_skip_signatures", False, ["policy"])],
}
# What may change of a cache that is there: who signed it, where other policies are given.
RETURNED = ("digest", "path", "mount_path", "signatures")


async def extract(module):
    given = module.params
    if given["insecure_skip_signatures"] and given["policy"]:
        raise ConfigurationError(
            "policy and insecure_skip_signatures are both given", next_step="leave one of them out"
        )
    base = Path(given["folder"])
    request = ExtractionRequest(
        image=parse_reference(given["image"]),
        base=base,
        policies=read_policies(module),
        namespace=given["namespace"] or None,
        mount_path=given["mount_path"],
        limits=Limits.of_gib(given["max_gib"]),
        node=await read_cards(module),
    )
    known = {str(each.place.cache): to_builtins(describe_extraction(each)) for each in list_extracted(base).caches}
    async with RegistryClient(read_settings(module)) as client:
        if module.check_mode:
            view = to_builtins(describe_preview(await preview_extraction(client, request)))
        else:
            view = to_builtins(describe_extraction(await extract_image(client, request)))
    before = known.get(view["path"], {})
    diff = {"before": select_returned(before), "after": select_returned(view)}
    return {**view, "changed": diff["before"] != diff["after"], "diff": diff}


def select_returned(view):
    return {name: view[name] for name in RETURNED if name in view}


def main():
    module = cache_module(
        constraints=RULES,
        image={"type": "str", "required": True},
        folder={"type": "path", "required": True},
        mount_path={"type": "str"},
        insecure_skip_signatures={"type": "bool", "default": False},
        max_gib={"type": "int", "default": 32},
        **POLICY_ARGUMENTS,
        **CARD_ARGUMENTS,
    )
    finish(module, extract)


if __name__ == "__main__":
    main()
