# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # Options of all modules that call image registries.
    DOCUMENTATION = r"""
options:
  registry_plain_http:
    description:
      - Registries, as V(host) or V(host:port), that can be accessed without TLS. Use the same name as in the reference
        of the image.
      - The module accesses all other registries and all other ports of the same host only with TLS.
    type: list
    elements: str
    default: []
  registry_ca:
    description:
      - Path of a PEM file with authorities that are trusted in addition to those of the system.
    type: path
  registry_mirrors:
    description:
      - For each registry, the hosts to which the module sends a request first, as a string or a list.
      - A host can have a port and a path prefix, for example V(mirror.example:5000/quay).
      - The module reads images and signatures from mirrors. It never writes to mirrors, and does not compare an image
        that it writes with a mirror.
    type: dict
    default: {}
  registry_logins:
    description:
      - Credentials for registries.
    type: list
    elements: dict
    default: []
    suboptions:
      registry:
        description: The registry, as V(host) or V(host:port). V(docker.io) is Docker Hub.
        type: str
        required: true
      username:
        description: User name.
        type: str
        required: true
      password:
        description: Password or access token.
        type: str
        required: true
  registry_config:
    description:
      - Paths of files with credentials, in the format of C(config.json) of Docker or of a pull secret.
      - If neither this option nor O(registry_logins) is set, the module uses the credentials of the Docker user, from
        E(DOCKER_CONFIG) or C(~/.docker).
    type: list
    elements: path
    default: []
requirements:
  - The Python package C(accelkit) on the host that runs the module, for the Python interpreter that runs it.
"""

    # Options of modules that verify signatures.
    POLICY = r"""
options:
  trusted_root:
    description:
      - Path of the trusted root of a Sigstore instance, as JSON.
      - By default, it is the trusted root of the public instance in the installed release of sigstore. The module does
        not download it.
    type: path
  namespace:
    description:
      - The namespace whose policies apply.
      - By default, only policies for all namespaces apply.
    type: str
    default: ''
"""

    # Options for the cards that must be able to use a cache.
    CARDS = r"""
options:
  cards:
    description:
      - Cards of the host for which the module checks the cache, for example V(cuda:90), V(hip:gfx942) or
        V(cuda:90=NVIDIA H100).
    type: list
    elements: str
    default: []
  node:
    description:
      - Name of a node. The module checks the cache for the cards in the inventory of this node, which it reads from the
        API server.
    type: str
  driver_version:
    description:
      - Version of the NVIDIA driver of the cards, for example V(550.54.14). It determines the versions of CUDA and PTX
        that the driver can load.
      - If neither this option nor O(driver_cuda_version) is set, the verdict on a cache that requires a minimum version
        of the driver is unknown.
    type: str
  driver_cuda_version:
    description:
      - The newest CUDA version that the NVIDIA driver of the cards supports, as reported by C(nvidia-smi), for example
        V(12.4).
    type: str
"""

    # Options for the workload that uses a cache.
    WORKLOAD = r"""
options:
  triton_version:
    description:
      - Version of Triton in the workload, which is the value of C(triton.__version__). It determines how likely the
        workload finds its kernels.
    type: str
  torch_cuda_version:
    description:
      - CUDA version of PyTorch in the workload, which is the value of C(torch.version.cuda), for example V(12.8).
    type: str
  vllm_cache_hash:
    description:
      - The folder in C(torch_compile_cache) that vLLM in the workload uses.
    type: str
"""
