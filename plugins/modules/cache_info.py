#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_info
short_description: Gather information about kernel cache images and extracted caches
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads the labels that describe the kernel cache in an image, and checks whether the given cards can use the cache.
    The module does not download layers.
  - Lists the extracted caches in a folder.
  - The module does not verify signatures, so you cannot trust the labels. To verify the signer, use
    M(accelkit.kubernetes.cache_verify).
extends_documentation_fragment:
  - accelkit.kubernetes._registry
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
  folder:
    description:
      - The folder to which M(accelkit.kubernetes.cache_extract) extracts caches.
    type: path
seealso:
  - module: accelkit.kubernetes.cache_extract
"""

EXAMPLES = r"""
- name: Check whether a cache fits the cards of a node
  accelkit.kubernetes.cache_info:
    image: quay.io/acme/llama-cache:v1
    node: worker-1
    driver_version: 550.54.14
  register: cache

- name: Estimate how likely a workload is to find its kernels in the cache
  accelkit.kubernetes.cache_info:
    image: quay.io/acme/llama-cache:v1
    cards: ["cuda:90=NVIDIA H100 80GB HBM3"]
    triton_version: 3.2.0
    torch_cuda_version: "12.8"

- name: List the caches of a host
  accelkit.kubernetes.cache_info:
    folder: /var/lib/accelkit/caches
  register: caches
"""

RETURN = r"""
cache:
  description: >-
    Data from the image's labels and manifest. A value is null if the image does not contain this information.
  returned: if O(image) is set
  type: dict
  contains:
    image:
      description: The image with its digest.
      type: str
      sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
    digest:
      description: The digest of the image.
      type: str
      sample: sha256:5f0c…
    format:
      description: Format of the cache, V(triton), V(vllm) or V(habana).
      type: str
      sample: vllm
    compressed_bytes:
      description: Size of the layers in the registry, in bytes.
      type: int
      sample: 20971520
    cache_bytes:
      description: Size of the extracted files, in bytes.
      type: int
      sample: 73400320
    entries:
      description: Number of kernels, hash folders or recipes.
      type: int
      sample: 12
    targets:
      description: >-
        Hardware for which the cache was compiled, each with C(backend), C(arch), C(warp_size), C(ptx_version) and
        C(cuda_version).
      type: list
      elements: dict
      sample: [{backend: cuda, arch: "90", warp_size: 32, ptx_version: null, cuda_version: "12.8"}]
    cache_formats:
      description: For vLLM, the formats of the files in the cache, V(aot_compile), V(binary) or V(triton).
      type: list
      elements: str
    hashes:
      description: For vLLM, the names of the hash folders.
      type: list
      elements: str
    triton_versions:
      description: Versions of Triton that were used to compile the cache.
      type: list
      elements: str
    cuda_versions:
      description: CUDA versions of the framework that compiled the cache.
      type: list
      elements: str
    cpu_architecture:
      description: CPU architecture of the native launchers in the cache.
      type: str
      sample: amd64
    gpu_product:
      description: Name of the card on which the cache was compiled.
      type: str
      sample: NVIDIA H100 80GB HBM3
    labels:
      description: The labels of the image, without changes.
      type: dict
    compatibility:
      description: Whether the cards can use the cache. The value is null if no cards were given.
      type: dict
      contains:
        fit:
          description: Cards that can use the cache, V(all), V(some), V(none) or V(unknown).
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
extracted:
  description: Complete caches in the folder.
  returned: if O(folder) is set
  type: list
  elements: dict
  contains:
    image:
      description: The image with its digest.
      type: str
      sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
    digest:
      description: The digest of the image.
      type: str
      sample: sha256:5f0c…
    path:
      description: The folder that contains the files of the framework.
      type: str
      sample: /var/lib/accelkit/caches/sha256-5f0c…/cache
    mount_path:
      description: The path at which workloads must mount the cache.
      type: str
      sample: /home/vllm/.cache/vllm
    format:
      description: Format of the cache, V(triton), V(vllm) or V(habana).
      type: str
      sample: vllm
    files:
      description: Number of files.
      type: int
      sample: 214
    bytes:
      description: Total size of the files, in bytes.
      type: int
      sample: 73400320
    signatures:
      description: Descriptions of the signers. The list is empty if the signatures were not verified.
      type: list
      elements: str
    extracted_at:
      description: Time of the extraction, in RFC 3339 format.
      type: str
      sample: "2026-06-01T12:00:00+00:00"
    compatibility:
      description: Whether the cards can use the cache. The value is null if no cards were given.
      type: dict
      contains:
        fit:
          description: Cards that can use the cache, V(all), V(some), V(none) or V(unknown).
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
unusable:
  description: Folders with the name of a cache that are incomplete, or that a newer version of accelkit wrote.
  returned: if O(folder) is set
  type: list
  elements: str
retryable:
  description: Whether a retry can succeed, because a registry was temporarily unavailable.
  returned: failure
  type: bool
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    CARD_ARGUMENTS,
    WORKLOAD_ARGUMENTS,
    cache_module,
    finish,
    read_cards,
    read_settings,
    read_workload,
    to_builtins,
)

# If accelkit is missing, _registry reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.kernelcache.compatibility.verdicts import judge
    from accelkit.kernelcache.extraction.listing import list_extracted
    from accelkit.kernelcache.formats.cache_image import read_cache_image
    from accelkit.kernelcache.oci.reference import parse_reference
    from accelkit.kernelcache.registry import RegistryClient
    from accelkit.kernelcache.views import describe_extraction, describe_image

RULES = {"required_one_of": [("image", "folder")]}


async def read_info(module):
    given = module.params
    result, node = {"changed": False}, await read_cards(module)
    workload = read_workload(module, node)
    if given["image"]:
        result["cache"] = await read_image(module, node, workload)
    if given["folder"]:
        listing = list_extracted(Path(given["folder"]))
        result["extracted"] = [describe_cache_on_disk(each, node, workload) for each in listing.caches]
        result["unusable"] = [str(each) for each in listing.unusable]
    return result


async def read_image(module, node, workload):
    reference = parse_reference(module.params["image"])
    async with RegistryClient(read_settings(module)) as client:
        raw = await client.read_manifest(reference)
        image = await read_cache_image(client, reference.with_digest(raw.digest), raw)
    return to_builtins(describe_image(image, raw.digest, judge(image.labels, node, workload) if node else None))


def describe_cache_on_disk(cache, node, workload):
    """Return the data of an extracted cache, without the field `changed`, which applies only to an extraction."""
    verdicts = judge(cache.record.labels, node, workload) if node else None
    view = to_builtins(describe_extraction(replace(cache, verdicts=verdicts)))
    del view["changed"]
    return view


def main():
    module = cache_module(
        constraints=RULES, image={"type": "str"}, folder={"type": "path"}, **CARD_ARGUMENTS, **WORKLOAD_ARGUMENTS
    )
    finish(module, read_info)


if __name__ == "__main__":
    main()
