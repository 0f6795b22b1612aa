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
      - Registries that can be accessed without TLS, as V(host) or V(host:port). Use the same name as in the image
        reference.
      - The module uses TLS for all other registries, and for all other ports on the same host.
    type: list
    elements: str
    default: []
  registry_ca:
    description:
      - Path of a PEM file with certificate authorities to trust, in addition to the authorities of the operating
        system.
    type: path
  registry_mirrors:
    description:
      - For each registry, the mirror hosts that the module queries before the registry, as a string or a list.
      - A host can include a port and a path prefix, for example V(mirror.example:5000/quay).
      - The module only reads images and signatures from mirrors. It does not write to mirrors, and does not use mirrors
        to check whether an image to write already exists.
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
      - Paths of files with credentials, in the format of Docker's C(config.json) or of a pull secret.
      - If neither this option nor O(registry_logins) is set, the module uses the user's Docker credentials, from
        E(DOCKER_CONFIG) or C(~/.docker).
    type: list
    elements: path
    default: []
requirements:
  - The Python package C(accelkit) on the host that runs the module, in the Python environment that runs the module.
"""

    # Options of modules that verify signatures.
    POLICY = r"""
options:
  trusted_root:
    description:
      - Path of the trusted root of a Sigstore instance, as JSON.
      - By default, the module uses the trusted root of the public instance that the installed release of sigstore
        contains. The module does not download it.
    type: path
  namespace:
    description:
      - Namespace for which the policies are evaluated.
      - By default, only policies for all namespaces apply.
    type: str
    default: ''
"""

    # Options for the cards that must be able to use a cache.
    CARDS = r"""
options:
  cards:
    description:
      - Cards for which the module checks the cache, for example V(cuda:90), V(hip:gfx942) or V(cuda:90=NVIDIA H100).
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
      - If neither this option nor O(driver_cuda_version) is set, the verdict for a cache that requires a minimum driver
        version is unknown.
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
      - Version of Triton in the workload, which is the value of C(triton.__version__). The module uses it to estimate
        how likely the workload is to find its kernels in the cache.
    type: str
  torch_cuda_version:
    description:
      - CUDA version of PyTorch in the workload, which is the value of C(torch.version.cuda), for example V(12.8).
    type: str
  vllm_cache_hash:
    description:
      - Name of the folder in C(torch_compile_cache) that vLLM in the workload uses.
    type: str
"""
