#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_copy
short_description: Copy a kernel cache image with its signatures
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Copies an image without changes to another registry or repository, including the artifacts that C(cosign) attached
    to the image.
  - The signatures are also valid for the copy, so you do not need to sign the copy.
  - The module does not upload content that the target already has.
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_registry
attributes:
  check_mode:
    support: full
    details: The module compares the source and the target, but does not upload content.
  diff_mode:
    support: full
options:
  source:
    description:
      - The image, by tag or digest.
    type: str
    required: true
  target:
    description:
      - Reference of the copy, as C(registry/repository:tag). The module updates the tag.
    type: str
    required: true
  signatures:
    description:
      - Whether to also copy signatures, and attestations in bundles.
    type: bool
    default: true
notes:
  - The module does not verify signatures. To verify the source or the target, use M(accelkit.kubernetes.cache_verify).
  - All signatures in the cosign 2 format share a single tag. After the copy, the target has only the source's
    signatures in this format.
seealso:
  - module: accelkit.kubernetes.cache_build
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Copy a cache to the registry of the data center
  accelkit.kubernetes.cache_copy:
    source: quay.io/acme/llama-cache:v1
    target: registry.example.org/caches/llama:v1
"""

RETURN = r"""
digest:
  description: The digest, which is the same for the source and the target.
  returned: success
  type: str
  sample: sha256:5f0c…
uploaded_bytes:
  description: Number of uploaded bytes. It is 0 in check mode.
  returned: success
  type: int
  sample: 20973568
manifests:
  description: Number of written manifests, including manifests of signatures. It is 0 in check mode.
  returned: success
  type: int
  sample: 2
signatures:
  description: >-
    Number of signature images and bundles that the target did not have, including signatures for the members of an
    index.
  returned: success
  type: int
  sample: 1
retryable:
  description: Whether a retry can succeed, because a registry was temporarily unavailable.
  returned: failure
  type: bool
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    cache_module,
    finish,
    read_settings,
    without_mirrors,
)

# If accelkit is missing, _registry reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.errors import ConfigurationError
    from accelkit.kernelcache.oci.reference import parse_reference
    from accelkit.kernelcache.publishing.copy import copy_image
    from accelkit.kernelcache.publishing.existing_images import find_digest, list_attachments, list_members
    from accelkit.kernelcache.registry import RegistryClient


async def copy(module):
    given, settings = module.params, read_settings(module)
    source, target = parse_reference(given["source"]), parse_reference(given["target"])
    if target.digest:
        raise ConfigurationError(
            f"{target} has a digest, but the copy gets the digest of the source", next_step="give a tag"
        )
    async with RegistryClient(settings) as reading, RegistryClient(without_mirrors(settings)) as writing:
        digest = (await reading.read_manifest(source)).digest
        before = await find_digest(writing, target)
        missing = set()
        members = await list_members(reading, source.with_digest(digest)) if given["signatures"] else []
        for member in members:
            wanted = await list_attachments(reading, source.with_digest(member))
            missing |= wanted.keys() - await list_attachments(writing, target.with_digest(member))
        result = {"digest": digest, "uploaded_bytes": 0, "manifests": 0}
        changed = digest != before or bool(missing)
        if changed and not module.check_mode:
            # Copy by digest, because the tag of the source may have moved in the meantime.
            done = await copy_image(
                reading, source.with_digest(digest), writing, target, signatures=given["signatures"]
            )
            result = {"digest": digest, "uploaded_bytes": done.uploaded_bytes, "manifests": done.manifests}
    return {
        **result,
        "changed": changed,
        "signatures": len(missing),
        "diff": {
            "before": {"digest": before, "missing_signatures": sorted(missing)},
            "after": {"digest": digest, "missing_signatures": []},
        },
    }


def main():
    module = cache_module(
        source={"type": "str", "required": True},
        target={"type": "str", "required": True},
        signatures={"type": "bool", "default": True},
    )
    finish(module, copy)


if __name__ == "__main__":
    main()
