#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_build
short_description: Build, push and sign an image of a kernel cache
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Builds an image of a folder that Triton, vLLM or Habana filled, without any container engine, and pushes it.
  - The same files always give the same digest, so an image that the tag leads to already is not pushed again.
  - Signs the image with C(cosign), which is needed for that only, unless the image is signed already.
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_registry
attributes:
  check_mode:
    support: full
    details: The image is built and compared with the one that the tag leads to, and nothing is pushed.
  diff_mode:
    support: full
options:
  folder:
    description:
      - Folder of the cache, as the framework wrote it.
    type: path
    required: true
  image:
    description:
      - Target of the image, as C(registry/repository:tag). The tag is moved.
    type: str
    required: true
  compression:
    description:
      - V(zstd) is faster, V(gzip) is what MCV reads.
    type: str
    choices: [gzip, zstd, none]
    default: gzip
  media:
    description:
      - Family of media types to use.
    type: str
    choices: [oci, docker]
    default: oci
  architecture:
    description:
      - CPU of the native launchers in the cache, as V(amd64) or V(arm64).
      - Without it, that of the host.
    type: str
    default: ''
  gpu_product:
    description:
      - Name of the card that the cache was compiled on, as its vendor's library gives it.
    type: str
  built_for:
    description:
      - What it was compiled for, as V(cuda:90), where the cache's files do not tell.
    type: str
    default: ''
  allow_secrets:
    description:
      - Whether a cache is pushed whose own files hold variables that look like secrets.
    type: bool
    default: false
  sign:
    description:
      - Whether to sign the image unless it is signed already.
      - Existing signatures are not verified; M(accelkit.kubernetes.cache_verify) does that.
    type: bool
    default: false
  sign_key:
    description:
      - Key for C(cosign), that is a file, a Kubernetes secret as C(k8s://namespace/name), or the URI of a key service.
      - The password of a key is taken from E(COSIGN_PASSWORD) in the environment of the task.
      - Without it, C(cosign) signs keyless, with the identity that its environment provides.
    type: str
    default: ''
  transparency_log:
    description:
      - Whether the signature gets an entry in the transparency log.
    type: bool
    default: true
  cosign:
    description:
      - Name or path of C(cosign), of version 2 or 3.
    type: str
    default: cosign
notes:
  - With O(registry_logins) or O(registry_config), C(cosign) gets the log-in for the image's registry only.
seealso:
  - module: accelkit.kubernetes.cache_copy
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Make an image of a cache, push it and sign it with a key
  accelkit.kubernetes.cache_build:
    folder: /root/.cache/vllm
    image: quay.io/acme/llama-cache:v1
    sign: true
    sign_key: /etc/accelkit/cosign.key
  environment:
    COSIGN_PASSWORD: "{{ cosign_password }}"
"""

RETURN = r"""
image:
  description: The image as it was given.
  returned: success
  type: str
  sample: quay.io/acme/llama-cache:v1
digest:
  description: The digest that was built.
  returned: success
  type: str
  sample: sha256:5f0c…
format:
  description: V(triton), V(vllm) or V(habana).
  returned: success
  type: str
  sample: vllm
entries:
  description: How many kernels, hash folders or recipes there are.
  returned: success
  type: int
  sample: 12
files:
  description: How many files there are.
  returned: success
  type: int
  sample: 214
cache_bytes:
  description: Size of the files.
  returned: success
  type: int
  sample: 73400320
compressed_bytes:
  description: Size of the layer.
  returned: success
  type: int
  sample: 20971520
uploaded_bytes:
  description: What was sent; less than the layer where the registry had some of it.
  returned: success
  type: int
  sample: 20973568
pushed:
  description: Whether it was pushed now.
  returned: success
  type: bool
signed:
  description: Whether it was signed now, or in check mode would be.
  returned: success
  type: bool
secrets:
  description: Variables in the cache's own files that look like secrets. Everyone who pulls the image can read them.
  returned: success
  type: list
  elements: str
labels:
  description: The labels of the image.
  returned: success
  type: dict
retryable:
  description: >-
    Whether nothing was learnt, because a registry or a trusted root was not there, so that trying again may help.
  returned: failure
  type: bool
"""

from contextlib import suppress
from pathlib import Path

from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    cache_module,
    finish,
    read_settings,
    to_builtins,
    without_mirrors,
)

# _registry reports a missing accelkit before anything of this is called.
with suppress(ImportError):
    from accelkit.errors import ConfigurationError
    from accelkit.kernelcache.compatibility.arguments import parse_target
    from accelkit.kernelcache.oci.reference import parse_reference
    from accelkit.kernelcache.publishing.build import BuildOptions, build_image
    from accelkit.kernelcache.publishing.existing_images import find_digest, has_signature
    from accelkit.kernelcache.publishing.signing import Cosign, sign_image
    from accelkit.kernelcache.registry import RegistryClient
    from accelkit.kernelcache.views import describe_build


async def build(module):
    given, check = module.params, module.check_mode
    reference, settings = parse_reference(given["image"]), without_mirrors(read_settings(module))
    if reference.digest:
        raise ConfigurationError(f"{reference} has a digest, and what is built has its own", next_step="give a tag")
    async with RegistryClient(settings) as client:
        before = await find_digest(client, reference)
        image = await build_image(
            Path(given["folder"]), reference, read_options(given), None if check else client, present=before
        )
        pinned = reference.with_digest(image.digest)
        differs = image.digest != before
        # Nobody can have signed in this place what was never there.
        sign = given["sign"] and ((check and differs) or not await has_signature(client, pinned))
    if sign and not check:
        cosign = Cosign(given["cosign"], given["sign_key"] or None, log=given["transparency_log"])
        own_logins = bool(given["registry_logins"] or given["registry_config"])
        await sign_image(pinned, cosign, settings, lend_login=own_logins)
    return {
        **to_builtins(describe_build(str(reference), image)),
        "changed": differs or sign,
        "signed": sign,
        "diff": {
            "before": {"digest": before, "signed": not sign if given["sign"] else None},
            "after": {"digest": image.digest, "signed": True if given["sign"] else None},
        },
    }


def read_options(given):
    return BuildOptions(
        compression=given["compression"],
        media=given["media"],
        architecture=given["architecture"] or None,
        gpu_product=given["gpu_product"],
        allow_secrets=given["allow_secrets"],
        built_for=parse_target(given["built_for"]),
    )


def main():
    module = cache_module(
        folder={"type": "path", "required": True},
        image={"type": "str", "required": True},
        compression={"type": "str", "choices": ["gzip", "zstd", "none"], "default": "gzip"},
        media={"type": "str", "choices": ["oci", "docker"], "default": "oci"},
        architecture={"type": "str", "default": ""},
        gpu_product={"type": "str"},
        built_for={"type": "str", "default": ""},
        # Whether there may be any is no secret.
        allow_secrets={"type": "bool", "default": False, "no_log": False},
        sign={"type": "bool", "default": False},
        # What names a key is no secret.
        sign_key={"type": "str", "default": "", "no_log": False},
        transparency_log={"type": "bool", "default": True},
        cosign={"type": "str", "default": "cosign"},
    )
    finish(module, build)


if __name__ == "__main__":
    main()
