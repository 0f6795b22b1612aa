#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_extract
short_description: Verify a kernel cache image, and extract the cache
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Verifies an image, checks whether the given cards can use its cache, and extracts the cache once to a folder that is
    named after the digest.
  - The module does not write files before it has verified the signatures. The cache becomes visible only after all
    bytes have been verified.
  - If the cache already exists but was verified against different policies, the module verifies the image again. It
    does not extract the cache again.
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
      The module verifies and checks the image, but does not write files. Whether the layers are valid and fit on the
      disk can only be determined by an extraction.
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
      - Parent folder of the folders that are named after digests. The module creates the parent folder if it does not
        exist.
    type: path
    required: true
  mount_path:
    description:
      - Absolute path at which workloads mount the cache. The module rewrites the paths in Triton's group files for this
        path.
      - The default is the path of the extracted cache.
      - The module extracts a separate copy for each path.
    type: str
  policy:
    description:
      - Path of the signer policies, as YAML.
      - Required unless O(insecure_skip_signatures=true).
    type: path
  insecure_skip_signatures:
    description:
      - Whether to extract the cache without verifying signatures.
    type: bool
    default: false
  max_gib:
    description:
      - Maximum size of the cache on the disk in GiB. The module rejects larger caches.
    type: int
    default: 32
notes:
  - The module does not delete caches for other digests, because workloads may use them.
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

- name: Print the path of the extracted cache
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
  description: The digest of the image.
  returned: success
  type: str
  sample: sha256:5f0c…
path:
  description: The folder that contains the files of the framework. Workloads mount this folder.
  returned: success
  type: str
  sample: /var/lib/accelkit/caches/sha256-5f0c…-1a2b…/cache
mount_path:
  description: The path at which workloads must mount the cache.
  returned: success
  type: str
  sample: /home/vllm/.cache/vllm
format:
  description: Format of the cache, V(triton), V(vllm) or V(habana).
  returned: success
  type: str
  sample: vllm
files:
  description: Number of files.
  returned: if the cache is extracted
  type: int
  sample: 214
bytes:
  description: Total size of the files, in bytes.
  returned: if the cache is extracted
  type: int
  sample: 73400320
extracted_at:
  description: Time of the extraction, in RFC 3339 format.
  returned: if the cache is extracted
  type: str
  sample: "2026-06-01T12:00:00+00:00"
signatures:
  description: Descriptions of the signers. The list is empty if the signatures were not verified.
  returned: success
  type: list
  elements: str
  sample: ["ci@acme.example (cosign-v3, policy acme)"]
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
      description: The result for each card, with C(id), C(verdict), C(reasons), and the likelihood of a C(hit).
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

# If accelkit is missing, _registry reports this before the module uses these names.
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
# The fields that determine `changed`. The signers of an extracted cache change if the policies differ.
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
