#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_share
short_description: Select the nodes that share their cards
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Sets the label C(accelkit.io/share=true) on nodes.
  - With O(state=absent), removes accelkit's metadata from nodes. The metadata consists of the label, the annotation
    C(accelkit.io/inventory), and the advertised resources in C(capacity) and C(allocatable) of the node status. The
    resources are C(accelkit.io/memory) and C(accelkit.io/cards), or the resources of the agents' dialects.
  - The module does not remove the label C(accelkit.io/share=false), because a user set it.
  - When a device plugin stops, the kubelet only sets the plugin's resources to 0. Therefore, with O(state=absent), the
    module waits until the values are 0, deletes the resources from the node status, and checks that they do not
    reappear.
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
      - V(present) labels the nodes.
      - V(withdrawn) removes the label from all nodes, so that the node agents stop, and waits until no kubelet
        advertises their resources. Use this state before you remove other components, because a pod that is placed
        without the extender fails on its node. The module warns if a kubelet still advertises resources after
        O(grace_seconds).
      - V(absent) removes accelkit's metadata from the nodes. Remove the node agent before this step or at the same
        time.
    type: str
    choices: [present, withdrawn, absent]
    default: present
  nodes:
    description:
      - Names of the nodes. All of them must exist.
      - By default, O(state=present) selects all nodes with cards. These are nodes with an inventory, and nodes that
        Node Feature Discovery or the vendor's tools labeled as nodes with cards. Nodes with the label
        C(accelkit.io/share=false) are excluded.
      - By default, O(state=absent) selects all nodes that have accelkit's metadata.
    type: list
    elements: str
    default: []
  exclusive:
    description:
      - With O(state=present) and O(nodes), removes the label C(accelkit.io/share=true) from all other nodes.
      - To remove the other metadata from these nodes after their agents have stopped, use O(state=absent).
    type: bool
    default: false
  keep:
    description:
      - With O(state=absent), names of nodes that remain shared. From these nodes, the module removes only the metadata
        of previous dialects.
    type: list
    elements: str
    default: []
  wait_seconds:
    description:
      - With O(state=present), the maximum time to wait until each node has an inventory and advertises both resources,
        in seconds. With V(0), the module does not wait.
      - In check mode, the module waits only if it would not change any node.
    type: int
    default: 0
  unit:
    description:
      - With O(wait_seconds), the memory unit of the cluster, as in O(accelkit.kubernetes.unit_check#module:unit).
      - The module waits until all agents use this unit. If an agent reports that it cannot use the unit, the module
        fails with the reason that the agent reported.
    type: str
  dialect:
    description:
      - Dialect whose resources the node agents serve, for example V(native), V(gcushare), V(aliyun), V(kubegpu), or a
        dialect from a plug-in.
      - If the dialect describes another system, the module also adds the label of this system to nodes that do not have
        this label. It removes this label together with accelkit's metadata.
    type: str
    default: native
  dialects:
    description:
      - With O(state=present), dialects that are enabled in the extender. A device plugin that advertises cards as
        resources of one of these dialects is not a conflict.
    type: list
    elements: str
    default: []
  coexisting:
    description:
      - With O(state=present), names of nodes that are shared although another device plugin advertises their cards, for
        example as C(nvidia.com/gpu). The module fails if this is the case for any other node, because the same card
        could be allocated twice.
    type: list
    elements: str
    default: []
  leave_out:
    description:
      - With O(state=present), names of nodes to exclude because they have another owner, as returned by
        M(accelkit.kubernetes.node_owners).
    type: list
    elements: str
    default: []
  grace_seconds:
    description:
      - With O(state=absent), the maximum time in seconds to wait until the kubelets have set the resources to 0. A
        kubelet does this five minutes after the device plugin has stopped.
      - With O(state=withdrawn), the maximum time to wait until the kubelets no longer advertise resources, in seconds.
        This takes a few seconds.
    type: int
    default: 420
  confirm_seconds:
    description:
      - With O(state=absent), the time for which the module checks that no resource reappears, in seconds. Kubelets
        report their status every ten seconds.
    type: int
    default: 15
"""

EXAMPLES = r"""
- name: Share all nodes with cards
  accelkit.kubernetes.node_share:
    kubeconfig: ~/.kube/config

- name: Share two nodes
  accelkit.kubernetes.node_share:
    nodes: [node-1, node-2]

- name: Stop offering shares to new pods
  accelkit.kubernetes.node_share:
    state: withdrawn
    grace_seconds: 90

- name: Remove accelkit's metadata from all nodes
  accelkit.kubernetes.node_share:
    state: absent
"""

RETURN = r"""
nodes:
  description: Sorted names of the selected nodes.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
library_problems:
  description:
    - With O(wait_seconds), vendor libraries that are missing or do not work, with the reason, by node name.
    - For these nodes, data from the libraries is missing, for example card errors, or the memory size of models that
      are not in accelkit's table. The module warns about these libraries, but does not fail.
  returned: success
  type: dict
  sample: {node-1: ['library libefml.so of enflame is missing: it is in none of the host''s library folders']}
before:
  description: accelkit's labels, annotations, capacity and allocatable resources on each changed node before the
    change.
  returned: success
  type: dict
  sample: {node-1: {}}
after:
  description: The same data after the change.
  returned: success
  type: dict
  sample: {node-1: {labels: {accelkit.io/share: 'true'}}}
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.errors import ServiceError
    from accelkit.install.shared_nodes import SharingResult, share, unshare, withdraw
    from accelkit.model.units import parse_unit
    from accelkit.vendors.dialects import load_dialects, load_served_dialect


def main():
    module = api_module(
        state={"type": "str", "choices": ["present", "withdrawn", "absent"], "default": "present"},
        nodes={"type": "list", "elements": "str", "default": []},
        exclusive={"type": "bool", "default": False},
        keep={"type": "list", "elements": "str", "default": []},
        wait_seconds={"type": "int", "default": 0},
        unit={"type": "str"},
        grace_seconds={"type": "int", "default": 420},
        confirm_seconds={"type": "int", "default": 15},
        dialect={"type": "str", "default": "native"},
        dialects={"type": "list", "elements": "str", "default": []},
        coexisting={"type": "list", "elements": "str", "default": []},
        leave_out={"type": "list", "elements": "str", "default": []},
    )
    result = call(module, lambda api: _apply(api, module))
    before, after = dict(result.before), dict(result.after)
    for node, problems in result.library_problems.items():
        module.warn(f"node {node}: {'; '.join(problems)}")
    module.exit_json(
        changed=result.changed,
        nodes=list(result.nodes),
        library_problems={node: list(problems) for node, problems in result.library_problems.items()},
        before=before,
        after=after,
        diff={"before": before, "after": after},
    )


async def _apply(api, module):
    given = module.params
    if given["state"] == "present":
        return await share(
            api,
            nodes=given["nodes"],
            check=module.check_mode,
            exclusive=given["exclusive"],
            wait_seconds=given["wait_seconds"],
            unit_bytes=parse_unit(given["unit"]) if given["unit"] else None,
            dialect=load_served_dialect(given["dialect"]),
            counted=[name for each in load_dialects(given["dialects"]) for name in each.resources.requestable],
            coexisting=given["coexisting"],
            leave_out=given["leave_out"],
        )
    if given["state"] == "withdrawn":
        try:
            return await withdraw(api, grace_seconds=given["grace_seconds"], check=module.check_mode)
        except ServiceError as exc:
            module.warn(str(exc))
            return SharingResult(changed=True)
    return await unshare(
        api,
        nodes=given["nodes"],
        keep=given["keep"],
        grace_seconds=given["grace_seconds"],
        confirm_seconds=given["confirm_seconds"],
        check=module.check_mode,
        dialect=load_served_dialect(given["dialect"]),
    )


if __name__ == "__main__":
    main()
