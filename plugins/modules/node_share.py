#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_share
short_description: Choose the nodes whose cards are shared
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Puts the label C(accelkit.io/share=true) on nodes, for any number of them in one call.
  - With O(state=absent), removes accelkit's metadata from nodes, that is the label, the annotation
    C(accelkit.io/inventory), and the resources C(accelkit.io/memory) and C(accelkit.io/cards), or those of the dialects
    that its agents have advertised, in the node's capacity and allocatable. A label C(accelkit.io/share=false) is not
    accelkit's and stays.
  - A kubelet only sets the resources of a vanished device plugin to 0. So with O(state=absent) the module waits for
    that, deletes the keys from the node's status, and confirms that they do not come back.
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
      - V(withdrawn) takes the label off all nodes, so that the node agents leave them, and waits until no kubelet
        offers their resources to new pods. Do so before anything else is removed, since a pod that is placed when
        nobody counts fails on its node. Where a kubelet does not follow in O(grace_seconds), it warns.
      - V(absent) removes accelkit's metadata from them. Remove the node agent before, or with it.
    type: str
    choices: [present, withdrawn, absent]
    default: present
  nodes:
    description:
      - Names of the nodes; all must exist.
      - Without it, and O(state=present), all nodes with cards. These are nodes that Node Feature Discovery or the
        vendor's tools have labelled so, and nodes with an inventory. A node labelled C(accelkit.io/share=false) is left
        out.
      - Without it, and O(state=absent), all nodes with any of accelkit's metadata.
    type: list
    elements: str
    default: []
  exclusive:
    description:
      - With O(state=present) and O(nodes), takes the label C(accelkit.io/share=true) off all other nodes. What else
        they have of accelkit's goes with O(state=absent), when their agents are gone.
    type: bool
    default: false
  keep:
    description:
      - With O(state=absent), names of nodes that stay shared. They lose only what a former dialect left.
    type: list
    elements: str
    default: []
  wait_seconds:
    description:
      - With O(state=present), how long to wait until each node has an inventory and offers both resources; 0 for not at
        all.
      - In check mode it waits only where no node would change.
    type: int
    default: 0
  unit:
    description:
      - With O(wait_seconds), the cluster's unit of memory, as O(accelkit.kubernetes.unit_check#module:unit).
      - The module waits for an agent that has another unit. If an agent reports why it cannot use the unit, the wait
        ends with its reason.
    type: str
  dialect:
    description:
      - Dialect whose resources the node agents serve, as V(native), V(gcushare), V(aliyun), V(kubegpu), or a plug-in's.
      - Nodes without the label of that system get it too, and lose it on removal.
    type: str
    default: native
  dialects:
    description:
      - With O(state=present), dialects whose pods the extender counts. A device plugin that gives cards by the
        resources of one of them is no conflict.
    type: list
    elements: str
    default: []
  coexisting:
    description:
      - With O(state=present), names of nodes that are shared although another device plugin gives their cards, as
        C(nvidia.com/gpu). On other nodes that is an error, since both would give the same card away.
    type: list
    elements: str
    default: []
  leave_out:
    description:
      - With O(state=present), names of nodes that are left to their owners, as
        M(accelkit.kubernetes.node_owners) returns them.
    type: list
    elements: str
    default: []
  grace_seconds:
    description:
      - With O(state=absent), how long to wait until the kubelets have set the resources to 0. Kubelets do so five
        minutes after the device plugin is gone. With O(state=withdrawn), how long to wait until they offer none, which
        takes them some seconds.
    type: int
    default: 420
  confirm_seconds:
    description:
      - With O(state=absent), how long to confirm that no resource comes back. Kubelets report their status
        every ten seconds.
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

- name: Let no pod be placed any more that asks for a share
  accelkit.kubernetes.node_share:
    state: withdrawn
    grace_seconds: 90

- name: Take everything off again
  accelkit.kubernetes.node_share:
    state: absent
"""

RETURN = r"""
nodes:
  description: The nodes that were chosen, sorted.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
library_problems:
  description:
    - With O(wait_seconds), by node, which libraries of the vendors are of no use there, and why. What they would tell,
      such as errors of cards or the memory of models that are in no table, is not known of these nodes. It is warned
      of, and stops nothing.
  returned: success
  type: dict
  sample: {node-1: ['library libefml.so of enflame is missing: it is in none of the host''s library folders']}
before:
  description: What was accelkit's on each node that changes, as labels, annotations, capacity and allocatable.
  returned: success
  type: dict
  sample: {node-1: {}}
after:
  description: The same afterwards.
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
