#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_partition
short_description: Set the taints, roles and pools of nodes with cards
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Adds taints to nodes, with the names of extended resources as keys and the effect V(NoSchedule). Also adds the
    labels C(accelkit.io/role) and C(accelkit.io/pool).
  - Removes taints and labels that an earlier run added and that are no longer configured.
  - Each request that changes a node also records the change in the annotation C(accelkit.io/partitioning). The module
    removes only recorded labels and taints.
  - The module does not overwrite labels or taints that other users or controllers set. If such a label has a different
    value, the module fails before it changes any node.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(present) applies the configured labels and taints.
      - V(absent) removes all labels and taints that the module added.
    type: str
    choices: [present, absent]
    default: present
  taints:
    description:
      - Names of extended resources, which are the keys of the taints.
    type: list
    elements: str
    default: []
  tainted:
    description:
      - Names of the nodes to taint.
      - By default, the module taints all nodes that share their cards.
    type: list
    elements: str
    default: []
  roles:
    description:
      - Names of the nodes with each role. The role is the value of C(accelkit.io/role).
    type: dict
    default: {}
  pools:
    description:
      - Names of the nodes in each pool. The name of the pool is the value of C(accelkit.io/pool).
    type: dict
    default: {}
  own_pods:
    description:
      - Pods that must be able to run on at least one node. If the taints exclude these pods from all nodes, the module
        fails before it changes any node.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the pods in messages.
        type: str
        required: true
      setting:
        description:
          - Name of the variable that contains the tolerations of the pods.
        type: str
        required: true
      spec:
        description:
          - C(tolerations), C(nodeSelector) and C(affinity) of the pods.
        type: dict
        required: true
seealso:
  - module: accelkit.kubernetes.toleration_check
"""

EXAMPLES = r"""
- name: Reserve the nodes with cards for pods that request memory of cards
  accelkit.kubernetes.node_partition:
    taints: [accelkit.io/memory]
    roles:
      training: [node-1, node-2]
      inference: [node-3]

- name: Remove all labels and taints that the module added
  accelkit.kubernetes.node_partition:
    state: absent
"""

RETURN = r"""
tainted:
  description: Sorted names of the nodes that have the taints.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
before:
  description: Recorded labels and taints of each changed node before the change.
  returned: success
  type: dict
  sample: {node-1: []}
after:
  description: Recorded labels and taints of each changed node after the change.
  returned: success
  type: dict
  sample: {node-1: ['taint accelkit.io/memory=accelkit:NoSchedule']}
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.partitioning.applying import Partition, apply_partition, remove_partition
    from accelkit.enablement.partitioning.room import read_own_pods


OWN_PODS = {
    "name": {"type": "str", "required": True},
    "setting": {"type": "str", "required": True},
    "spec": {"type": "dict", "required": True},
}


def main():
    module = api_module(
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        taints={"type": "list", "elements": "str", "default": []},
        tainted={"type": "list", "elements": "str", "default": []},
        roles={"type": "dict", "default": {}},
        pools={"type": "dict", "default": {}},
        own_pods={"type": "list", "elements": "dict", "default": [], "options": OWN_PODS},
    )
    applied = call(module, lambda api: _apply(api, module))
    before = {name: list(each) for name, each in applied.before.items()}
    after = {name: list(each) for name, each in applied.after.items()}
    module.exit_json(
        changed=applied.changed,
        tainted=list(applied.tainted),
        before=before,
        after=after,
        diff={"before": before, "after": after},
    )


async def _apply(api, module):
    given = module.params
    if given["state"] == "absent":
        return await remove_partition(api, check=module.check_mode)
    own_pods = read_own_pods(given["own_pods"])
    partition = Partition(tuple(given["taints"]), tuple(given["tainted"]), given["roles"], given["pools"], own_pods)
    return await apply_partition(api, partition, check=module.check_mode)


if __name__ == "__main__":
    main()
