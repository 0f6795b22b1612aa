#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cache
short_description: Create, change or delete a kernel cache in a cluster
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Creates, changes or deletes a C(GKMCache) or a C(ClusterGKMCache). Pods mount a cache through a claim with the same
    name. Pods in the namespace of a C(GKMCache) can use it. Pods in several namespaces can use a C(ClusterGKMCache).
  - Waits until the cache is ready. The module fails immediately if the signer of the cache is rejected.
  - If an option is not set, the module does not change the corresponding field in the spec.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: In check mode, the module does not wait.
  diff_mode:
    support: full
options:
  state:
    description:
      - V(present) creates or changes the cache.
      - V(absent) deletes the cache. If pods mount the cache, it is deleted after these pods have finished.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description:
      - Kind of the cache.
      - The default is C(GKMCache) if O(namespace) is set, otherwise C(ClusterGKMCache).
    type: str
    choices: [GKMCache, ClusterGKMCache]
  name:
    description:
      - Name of the cache, and of the claims through which pods mount it.
    type: str
    required: true
  namespace:
    description:
      - Namespace of a C(GKMCache).
    type: str
  image:
    description:
      - The image, by tag or digest. Required for a new cache.
    type: str
  workload_namespaces:
    description:
      - Namespaces of the pods that use a C(ClusterGKMCache).
    type: list
    elements: str
  image_pull_secrets:
    description:
      - Names of Secrets that contain credentials for the registry. The Secrets must be in the namespace of the
        C(GKMCache), or for a C(ClusterGKMCache) in accelkit's namespace.
    type: list
    elements: str
  mount_path:
    description:
      - Path at which workloads mount the cache. The default is the path in the image labels.
    type: str
  delivery:
    description:
      - Method by which pods get the files of the cache.
      - With V(node), each node stores a copy. With V(namespace), a Job fills one claim in each namespace. With
        V(image), pods mount an image volume.
      - V(auto) selects V(namespace) if a storage class and an access mode for several readers are set, otherwise
        V(node).
    type: str
    choices: [auto, node, namespace, image]
  access_modes:
    description:
      - Access modes of the claims.
    type: list
    elements: str
    choices: [ReadWriteOnce, ReadOnlyMany, ReadWriteMany]
  storage_class_name:
    description:
      - Storage class of the claims that Jobs fill.
    type: str
  size:
    description:
      - Size of the claims that Jobs fill, for example V(2Gi). The default is the size in the image labels.
    type: str
  pod_template:
    description:
      - Placement of the Jobs that fill claims, in the format of C(spec.podTemplate).
    type: dict
  wait:
    description:
      - Whether to wait until the cache is ready or deleted.
    type: bool
    default: true
  timeout:
    description:
      - Maximum time to wait, in seconds.
    type: int
    default: 300
seealso:
  - module: accelkit.kubernetes.cache_build
  - module: accelkit.kubernetes.cache_verify
"""

EXAMPLES = r"""
- name: Create a cache for the pods of a team
  accelkit.kubernetes.cache:
    name: llama
    namespace: team-a
    image: quay.io/acme/llama-cache:v1
    image_pull_secrets: [quay]
  register: cache

- name: Print the digest and the nodes that are ready
  ansible.builtin.debug:
    msg: "{{ cache.digest }} is ready on {{ cache.nodes | selectattr('ready') | map(attribute='node') | join(', ') }}"

- name: Create a cache for two namespaces at the path that Triton reads
  accelkit.kubernetes.cache:
    name: kernels
    image: quay.io/acme/triton-kernels@sha256:5f0c0b7e7d1d2d1f3f4a8ed1b9a0c9a46ce4b54f1a1b4bd2c1b9a3c8f0f6a111
    workload_namespaces: [team-a, team-b]
    mount_path: /home/user/.triton/cache

- name: Delete a cache, and wait until no pod mounts it
  accelkit.kubernetes.cache:
    state: absent
    name: llama
    namespace: team-a
    timeout: 600
"""

RETURN = r"""
digest:
  description: The cache digest that pods use. It is empty if no digest has been verified yet.
  returned: if the cache exists
  type: str
  sample: sha256:5f0c…
mount_path:
  description: Path at which workloads mount the cache.
  returned: if the cache exists
  type: str
  sample: /home/vllm/.cache/vllm
ready:
  description: Whether pods can use the cache.
  returned: if the cache exists
  type: bool
conditions:
  description: Conditions of the cache, each with C(type), C(status), C(reason) and C(message).
  returned: if the cache exists
  type: list
  elements: dict
nodes:
  description: The state of this digest on each node, with C(node), C(ready), C(reason) and C(message).
  returned: if the cache exists
  type: list
  elements: dict
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.gkm.conditions import ConditionType, holds
    from accelkit.install.cache_objects import CacheRequest, delete_cache, read_cache, wait_for_cache, write_cache

# Maps the names of options to the names of fields in the spec.
FIELDS = {
    "image": "image",
    "workload_namespaces": "workloadNamespaces",
    "mount_path": "mountPath",
    "delivery": "delivery",
    "access_modes": "accessModes",
    "storage_class_name": "storageClassName",
    "size": "size",
    "pod_template": "podTemplate",
}


def read_request(module):
    given = module.params
    kind = given["kind"] or ("GKMCache" if given["namespace"] else "ClusterGKMCache")
    if (kind == "GKMCache") != bool(given["namespace"]):
        module.fail_json(msg="set namespace for a GKMCache, and do not set it for a ClusterGKMCache")
    spec = {field: given[option] for option, field in FIELDS.items() if given[option] is not None}
    if given["image_pull_secrets"] is not None:
        spec["imagePullSecrets"] = [{"name": name} for name in given["image_pull_secrets"]]
    return CacheRequest(given["name"], given["namespace"] or "", spec)


def describe(cache, reports):
    if cache is None:
        return {}
    return {
        "digest": cache.status.resolved_digest,
        "mount_path": cache.status.mount_path,
        "ready": holds(cache.status.conditions, ConditionType.READY),
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in cache.status.conditions
        ],
        "nodes": [
            {"node": each.node, "ready": each.ready, "reason": each.reason, "message": each.message} for each in reports
        ],
    }


async def have(api, module, request):
    before, changed = await write_cache(api, request, check=module.check_mode)
    waits = module.params["wait"] and not module.check_mode
    if waits:
        cache, reports = await wait_for_cache(api, request, seconds=module.params["timeout"])
    else:
        cache, reports = await read_cache(api, request)
    diff = {"before": before, "after": {**before, **request.spec}}
    return {"changed": changed, "diff": diff, **describe(cache, reports)}


async def drop(api, module, request):
    seconds = module.params["timeout"] if module.params["wait"] else None
    gone = await delete_cache(api, request, seconds=seconds, check=module.check_mode)
    return {"changed": gone, "diff": {"before": f"{request}\n" if gone else "", "after": ""}}


def main():
    module = api_module(
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        kind={"type": "str", "choices": ["GKMCache", "ClusterGKMCache"]},
        name={"type": "str", "required": True},
        namespace={"type": "str"},
        image={"type": "str"},
        workload_namespaces={"type": "list", "elements": "str"},
        # Names are not secrets.
        image_pull_secrets={"type": "list", "elements": "str", "no_log": False},
        mount_path={"type": "str"},
        delivery={"type": "str", "choices": ["auto", "node", "namespace", "image"]},
        access_modes={
            "type": "list",
            "elements": "str",
            "choices": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
        },
        storage_class_name={"type": "str"},
        size={"type": "str"},
        pod_template={"type": "dict"},
        wait={"type": "bool", "default": True},
        timeout={"type": "int", "default": 300},
    )
    request = read_request(module)
    act = have if module.params["state"] == "present" else drop
    module.exit_json(**call(module, lambda api: act(api, module, request)))


if __name__ == "__main__":
    main()
