# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # Options of all modules that speak to image registries.
    DOCUMENTATION = r"""
options:
  registry_plain_http:
    description:
      - Registries, as V(host) or V(host:port), that may be reached without TLS, named as in the image's reference.
      - No other registry ever is, nor another port of the same host.
    type: list
    elements: str
    default: []
  registry_ca:
    description:
      - Path of a PEM file with authorities that are trusted in addition to the system's.
    type: path
  registry_mirrors:
    description:
      - For each registry, the hosts that are asked before it, as one text or a list.
      - A host may have a port and a prefix of paths, as in V(mirror.example:5000/quay).
      - Images and signatures are read there. Nothing is written there, nor is what is about to be written compared
        with it.
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
        description: The registry, as V(host) or V(host:port); V(docker.io) is Docker Hub.
        type: str
        required: true
      username:
        description: Name of the user.
        type: str
        required: true
      password:
        description: Password or access token.
        type: str
        required: true
  registry_config:
    description:
      - Paths of files with log-ins, in the format of Docker's C(config.json) or of a pull secret.
      - Without this and O(registry_logins), those of Docker's user are used, from E(DOCKER_CONFIG) or C(~/.docker).
    type: list
    elements: path
    default: []
requirements:
  - The Python package C(accelkit) on the host that runs the module, for the Python that runs it.
"""

    # Options of modules that verify signatures.
    POLICY = r"""
options:
  trusted_root:
    description:
      - Path of the trusted root of a Sigstore instance, as JSON.
      - Without it, that of the public instance as the installed release of sigstore knows it. Nothing is fetched.
    type: path
  namespace:
    description:
      - The namespace for which the policies are asked.
      - Without it, only policies for all namespaces count.
    type: str
    default: ''
"""

    # Which cards a cache is for.
    CARDS = r"""
options:
  cards:
    description:
      - Cards of the host to judge the cache against, as V(cuda:90), V(hip:gfx942) or V(cuda:90=NVIDIA H100).
    type: list
    elements: str
    default: []
  node:
    description:
      - Name of a node, to judge the cache against the cards in its inventory, which the API server has.
    type: str
  driver_version:
    description:
      - Version of the cards' NVIDIA driver, as V(550.54.14), which tells the CUDA and the PTX that it can load.
      - Without it and O(driver_cuda_version), a cache that needs a driver of some age has an unknown verdict.
    type: str
  driver_cuda_version:
    description:
      - The newest CUDA that the cards' NVIDIA driver supports, as C(nvidia-smi) shows it, such as V(12.4).
    type: str
"""

    # What is to use a cache.
    WORKLOAD = r"""
options:
  triton_version:
    description:
      - The workload's Triton, as C(triton.__version__) says, to tell how likely it finds its kernels.
    type: str
  torch_cuda_version:
    description:
      - CUDA of the workload's PyTorch, as C(torch.version.cuda) says, such as V(12.8).
    type: str
  vllm_cache_hash:
    description:
      - The folder in C(torch_compile_cache) that the workload's vLLM looks for.
    type: str
"""
