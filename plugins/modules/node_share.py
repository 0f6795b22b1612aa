#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_share
short_description: Select the nodes whose cards are shared
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Sets the label C(accelkit.io/share=true) on any number of nodes.
  - With O(state=absent), removes accelkit's metadata from nodes. These are the label, the annotation
    C(accelkit.io/inventory), and the advertised resources in capacity and allocatable of the node. The resources are
    C(accelkit.io/memory) and C(accelkit.io/cards), or those of the dialects of the agents.
  - A label C(accelkit.io/share=false) belongs to a user and stays.
  - When a device plugin stops, a kubelet only sets its resources to 0. So with O(state=absent), the module waits for
    the zeros, deletes the keys from the status of the node, and checks that they do not return.
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
      - V(withdrawn) removes the label from all nodes, so that the node agents stop there, and waits until no kubelet
        offers their resources to new pods. Use it before you remove other components, because a pod that is placed
        without the extender fails on its node. The module warns if a kubelet exceeds O(grace_seconds).
      - V(absent) removes accelkit's metadata from the nodes. Remove the node agent before this step, or at the same
        time.
    type: str
    choices: [present, withdrawn, absent]
    default: present
  nodes:
    description:
      - Names of the nodes. All of them must exist.
      - By default, O(state=present) selects all nodes with cards. These are nodes with an inventory, and nodes that
        Node Feature Discovery or the tools of the vendor labelled as nodes with cards. It excludes nodes with the label
        C(accelkit.io/share=false).
      - By default, O(state=absent) selects all nodes with any of accelkit's metadata.
    type: list
    elements: str
    default: []
  exclusive:
    description:
      - With O(state=present) and O(nodes), removes the label C(accelkit.io/share=true) from all other nodes.
      - Use O(state=absent) to remove the other metadata of these nodes after their agents have stopped.
    type: bool
    default: false
  keep:
    description:
      - With O(state=absent), names of nodes that stay shared. The module removes only the metadata of a former dialect
        from them.
    type: list
    elements: str
    default: []
  wait_seconds:
    description:
      - With O(state=present), the limit in seconds of the wait until each node has an inventory and offers both
        resources. With V(0), the module does not wait.
      - In check mode, it waits only if no node would change.
    type: int
    default: 0
  unit:
    description:
      - With O(wait_seconds), the cluster's unit of memory, as in O(accelkit.kubernetes.unit_check#module:unit).
      - The module waits for agents that have another unit. If an agent reports that it cannot use the unit, the module
        fails with the reason of the agent.
    type: str
  dialect:
    description:
      - Dialect whose resources the node agents serve, for example V(native), V(gcushare), V(aliyun), V(kubegpu), or the
        dialect of a plug-in.
      - Nodes without the label of the other system also get this label. The module removes it together with accelkit's
        metadata.
    type: str
    default: native
  dialects:
    description:
      - With O(state=present), dialects whose pods the extender counts. A device plugin that offers cards as resources
        of one of them is not a conflict.
    type: list
    elements: str
    default: []
  coexisting:
    description:
      - With O(state=present), names of nodes that are shared although another device plugin offers their cards, for
        example as C(nvidia.com/gpu). On other nodes, the module fails, because one card could be allocated twice.
    type: list
    elements: str
    default: []
  leave_out:
    description:
      - With O(state=present), names of nodes to exclude because they have another owner, as
        M(accelkit.kubernetes.node_owners) returns them.
    type: list
    elements: str
    default: []
  grace_seconds:
    description:
      - With O(state=absent), the limit in seconds of the wait until the kubelets have set the resources to 0. A kubelet
        does this five minutes after the device plugin stops.
      - With O(state=withdrawn), the limit in seconds of the wait until the kubelets offer no resources. This takes a
        few seconds.
    type: int
    default: 420
  confirm_seconds:
    description:
      - With O(state=absent), the number of seconds for which the module checks that no resource returns. Kubelets
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
  description: The selected nodes, sorted.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
library_problems:
  description:
    - With O(wait_seconds), libraries of vendors that are missing or do not work, by node, with the reason.
    - Data from these libraries is missing for these nodes, for example errors of cards, or the memory of models that
      are not in a table. The module warns of it and does not fail.
  returned: success
  type: dict
  sample: {node-1: ['library libefml.so of enflame is missing: it is in none of the host''s library folders']}
before:
  description: Labels, annotations, capacity and allocatable of accelkit on each changed node before the change.
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

# _api reports a missing accelkit before anything of this is called.
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
