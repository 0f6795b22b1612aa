#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache_info
short_description: Show the kernel cache of an image, and extracted caches
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads an image's labels about its kernel cache, and judges whether the cache fits some cards. No layer is fetched.
  - Lists the caches that are extracted below a folder.
  - No signature is checked. Labels are claims of the image; M(accelkit.kubernetes.cache_verify) verifies who made them.
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
    details: It changes nothing.
  diff_mode:
    support: none
    details: It changes nothing.
options:
  image:
    description:
      - The image, by tag or digest.
    type: str
  folder:
    description:
      - The folder below which M(accelkit.kubernetes.cache_extract) extracts.
    type: path
seealso:
  - module: accelkit.kubernetes.cache_extract
"""

EXAMPLES = r"""
- name: Ask whether a cache fits the cards of a node
  accelkit.kubernetes.cache_info:
    image: quay.io/acme/llama-cache:v1
    node: worker-1
    driver_version: 550.54.14
  register: cache

- name: Ask how likely a workload finds its kernels there
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
  description: What the image says; null is what it does not say.
  returned: when O(image) is given
  type: dict
  contains:
    image:
      description: The image with its digest.
      type: str
      sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
    digest:
      description: The digest.
      type: str
      sample: sha256:5f0c…
    format:
      description: V(triton), V(vllm) or V(habana).
      type: str
      sample: vllm
    compressed_bytes:
      description: Size of the layers in the registry.
      type: int
      sample: 20971520
    cache_bytes:
      description: Size of the extracted files.
      type: int
      sample: 73400320
    entries:
      description: How many kernels, hash folders or recipes there are.
      type: int
      sample: 12
    targets:
      description: >-
        What it was compiled for, each with C(backend), C(arch), C(warp_size), C(ptx_version) and C(cuda_version).
      type: list
      elements: dict
      sample: [{backend: cuda, arch: "90", warp_size: 32, ptx_version: null, cuda_version: "12.8"}]
    cache_formats:
      description: For vLLM, of V(aot_compile), V(binary) and V(triton) those that are there.
      type: list
      elements: str
    hashes:
      description: For vLLM, the hash folders.
      type: list
      elements: str
    triton_versions:
      description: Versions of Triton that compiled it.
      type: list
      elements: str
    cuda_versions:
      description: Versions of the framework's CUDA.
      type: list
      elements: str
    cpu_architecture:
      description: CPU of the native launchers in it.
      type: str
      sample: amd64
    gpu_product:
      description: Name of the card that it was compiled on.
      type: str
      sample: NVIDIA H100 80GB HBM3
    labels:
      description: The labels of the image as they stand.
      type: dict
    compatibility:
      description: >-
        Whether the cards can use the cache; null where no cards were given.
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
extracted:
  description: The caches below the folder that are there whole.
  returned: when O(folder) is given
  type: list
  elements: dict
  contains:
    image:
      description: The image with its digest.
      type: str
      sample: quay.io/acme/llama-cache:v1@sha256:5f0c…
    digest:
      description: The digest.
      type: str
      sample: sha256:5f0c…
    path:
      description: The folder with the framework's files.
      type: str
      sample: /var/lib/accelkit/caches/sha256-5f0c…/cache
    mount_path:
      description: Where workloads are to see it.
      type: str
      sample: /home/vllm/.cache/vllm
    format:
      description: V(triton), V(vllm) or V(habana).
      type: str
      sample: vllm
    files:
      description: How many files there are.
      type: int
      sample: 214
    bytes:
      description: Their size.
      type: int
      sample: 73400320
    signatures:
      description: Who signed it, as sentences; empty where nobody asked.
      type: list
      elements: str
    extracted_at:
      description: When it was extracted, in RFC 3339.
      type: str
      sample: "2026-06-01T12:00:00+00:00"
    compatibility:
      description: >-
        Whether the cards can use the cache; null where no cards were given.
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
unusable:
  description: Folders that are named like a cache and are not there whole, or were written by a newer accelkit.
  returned: when O(folder) is given
  type: list
  elements: str
retryable:
  description: >-
    Whether nothing was learnt, because a registry or a trusted root was not there, so that trying again may help.
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

# _registry reports a missing accelkit before anything of this is called.
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
    """Return the view of a cache on the disk, without whether it was extracted just now."""
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
