#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_build
short_description: Build, push and sign a kernel cache image
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Builds an image from the cache folder of Triton, vLLM or Habana, and pushes it. The module does not require a
    container engine.
  - The same files always produce the same digest. Therefore, the module does not push the image again if the tag
    already refers to this digest.
  - Signs the image with C(cosign), unless the image already has a signature. Only this step requires C(cosign).
extends_documentation_fragment:
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_registry
attributes:
  check_mode:
    support: full
    details: >-
      The module builds the image, and compares it with the existing image under this tag. It does not push the image.
  diff_mode:
    support: full
options:
  folder:
    description:
      - Folder of the cache, as written by the framework.
    type: path
    required: true
  image:
    description:
      - Reference to which the image is pushed, as C(registry/repository:tag). The module updates the tag.
    type: str
    required: true
  compression:
    description:
      - Compression of the layer. V(zstd) is faster, but MCV can read only V(gzip).
    type: str
    choices: [gzip, zstd, none]
    default: gzip
  media:
    description:
      - Media types that the image uses.
    type: str
    choices: [oci, docker]
    default: oci
  architecture:
    description:
      - CPU architecture of the native launchers in the cache, for example V(amd64) or V(arm64).
      - The default is the architecture of the host.
    type: str
    default: ''
  gpu_product:
    description:
      - Name of the card on which the cache was compiled, as reported by the vendor's library.
    type: str
  built_for:
    description:
      - Target for which the cache was compiled, for example V(cuda:90). Required if the files of the cache do not
        contain this information.
    type: str
    default: ''
  allow_secrets:
    description:
      - Whether to push the cache even if its files contain variables that look like secrets.
    type: bool
    default: false
  sign:
    description:
      - Whether to sign the image if it does not have a signature.
      - The module does not verify existing signatures. To verify signatures, use M(accelkit.kubernetes.cache_verify).
    type: bool
    default: false
  sign_key:
    description:
      - Key for C(cosign). This can be the path of a file, a Kubernetes Secret as C(k8s://namespace/name), or the URI of
        a key management service.
      - C(cosign) reads the key's password from E(COSIGN_PASSWORD) in the environment of the task.
      - By default, C(cosign) uses keyless signing with the identity from its environment.
    type: str
    default: ''
  transparency_log:
    description:
      - Whether to record the signature in the transparency log.
    type: bool
    default: true
  cosign:
    description:
      - Name or path of C(cosign), version 2 or 3.
    type: str
    default: cosign
notes:
  - If O(registry_logins) or O(registry_config) is set, the module passes only the credentials for the registry of the
    image to C(cosign).
seealso:
  - module: accelkit.kubernetes.cache_copy
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Build a cache image, push it and sign it with a key
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
  description: The value of O(image).
  returned: success
  type: str
  sample: quay.io/acme/llama-cache:v1
digest:
  description: The digest of the built image.
  returned: success
  type: str
  sample: sha256:5f0c…
format:
  description: Format of the cache, V(triton), V(vllm) or V(habana).
  returned: success
  type: str
  sample: vllm
entries:
  description: Number of kernels, hash folders or recipes.
  returned: success
  type: int
  sample: 12
files:
  description: Number of files.
  returned: success
  type: int
  sample: 214
cache_bytes:
  description: Total size of the files, in bytes.
  returned: success
  type: int
  sample: 73400320
compressed_bytes:
  description: Size of the compressed layer, in bytes.
  returned: success
  type: int
  sample: 20971520
uploaded_bytes:
  description: Number of uploaded bytes. It is less than the size of the layer if the registry already had part of the
    layer.
  returned: success
  type: int
  sample: 20973568
pushed:
  description: Whether the module pushed the image.
  returned: success
  type: bool
signed:
  description: Whether the module signed the image, or would sign it in check mode.
  returned: success
  type: bool
secrets:
  description: Variables in the cache files that look like secrets. All users who can pull the image can read these
    variables.
  returned: success
  type: list
  elements: str
labels:
  description: The labels of the image.
  returned: success
  type: dict
retryable:
  description: Whether a retry can succeed, because a registry was temporarily unavailable.
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

# If accelkit is missing, _registry reports this before the module uses these names.
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
        raise ConfigurationError(
            f"{reference} has a digest, but the digest results from the build", next_step="give a tag"
        )
    async with RegistryClient(settings) as client:
        before = await find_digest(client, reference)
        image = await build_image(
            Path(given["folder"]), reference, read_options(given), None if check else client, present=before
        )
        pinned = reference.with_digest(image.digest)
        differs = image.digest != before
        # An image that was never pushed to this repository has no signature there.
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
        # The option is a boolean and not a secret.
        allow_secrets={"type": "bool", "default": False, "no_log": False},
        sign={"type": "bool", "default": False},
        # The name of a key is not a secret.
        sign_key={"type": "str", "default": "", "no_log": False},
        transparency_log={"type": "bool", "default": True},
        cosign={"type": "str", "default": "cosign"},
    )
    finish(module, build)


if __name__ == "__main__":
    main()
