#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_copy
short_description: Copy an image of a kernel cache with its signatures
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Copies an image to another registry or repository, byte for byte, with what C(cosign) attached to it.
  - Its signatures stay valid there; nothing has to be signed again.
  - What the target has already is not sent again.
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_registry
attributes:
  check_mode:
    support: full
    details: What the two registries have is compared, and nothing is written.
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
      - Target of the copy, as C(registry/repository:tag). The tag is moved.
    type: str
    required: true
  signatures:
    description:
      - Whether signatures, and attestations in bundles, are copied too.
    type: bool
    default: true
notes:
  - Nothing is verified; do that on either side with M(accelkit.kubernetes.cache_verify).
  - Of signatures in the format of cosign 2, which share one tag, only those of the source are there afterwards.
seealso:
  - module: accelkit.kubernetes.cache_build
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Bring a cache into the registry of the data centre
  accelkit.kubernetes.cache_copy:
    source: quay.io/acme/llama-cache:v1
    target: registry.example.org/caches/llama:v1
"""

RETURN = r"""
digest:
  description: The digest, the same in both places.
  returned: success
  type: str
  sample: sha256:5f0c…
uploaded_bytes:
  description: What was sent; 0 in check mode.
  returned: success
  type: int
  sample: 20973568
manifests:
  description: How many manifests were written, those of signatures included; 0 in check mode.
  returned: success
  type: int
  sample: 2
signatures:
  description: How many signature images and bundles were missing at the target, those of an index's members included.
  returned: success
  type: int
  sample: 1
retryable:
  description: >-
    Whether nothing was learnt, because a registry or a trusted root was not there, so that trying again may help.
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

# _registry reports a missing accelkit before anything of this is called.
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
        raise ConfigurationError(f"{target} has a digest, and what is copied has its own", next_step="give a tag")
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
            # The tag may have moved meanwhile.
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
