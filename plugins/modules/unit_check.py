#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: unit_check
short_description: Check the effects of a memory unit on a cluster
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Fails if accelkit does not support O(unit).
  - Fails if the memory of a node results in more devices of this unit than its kubelet accepts. The message contains
    the smallest unit that works on this node. The module reads the inventories from the nodes' annotations. On a node
    without an inventory, the node agent performs the same check before it registers.
  - Fails if the cluster currently uses another unit and workloads request memory. Because requests are numbers of
    units, their meaning would change. To accept this change, set O(accept_change=true).
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: The module does not change anything.
  diff_mode:
    support: none
    details: The module does not change anything.
options:
  unit:
    description:
      - Amount of memory that one C(accelkit.io/memory) represents. Valid values are V(1GiB), V(512MiB) and so on down
        to V(1MiB); V(0.1GiB), V(0.01GiB) and V(0.001GiB); V(1GB), V(0.1GB), V(0.01GB) and V(0.001GB).
      - A number without a unit is in GiB, as in GCUShare's C(memoryUnit).
    type: str
    required: true
  former_unit:
    description:
      - Memory unit of another system that accelkit adopts. While a node has no inventory, requests are numbers of this
        unit.
      - Leave it empty if accelkit does not adopt another system.
    type: str
    default: ""
  accept_change:
    description:
      - Whether to accept that the meaning of existing memory requests changes.
    type: bool
    default: false
  dialects:
    description:
      - Dialects in which the module reads the requests of workloads.
    type: list
    elements: str
    default: [native]
"""

EXAMPLES = r"""
- name: Check the memory unit before the installation
  accelkit.kubernetes.unit_check:
    kubeconfig: ~/.kube/config
    unit: 0.1GiB

- name: Find the workloads that a change of the unit affects
  accelkit.kubernetes.unit_check:
    unit: 1MiB
    accept_change: true
  register: unit
"""

RETURN = r"""
unit_bytes:
  description: The unit in bytes.
  returned: success
  type: int
  sample: 1073741824
before:
  description: The current units of the cluster, in bytes. The list is empty if no node is shared.
  returned: always
  type: list
  elements: int
  sample: [1073741824]
refusals:
  description: Reason why the unit cannot be used on a node, by node name.
  returned: always
  type: dict
  sample: {}
finer:
  description: Names of the nodes that apply the unit immediately.
  returned: always
  type: list
  elements: str
  sample: [node-1]
waiting:
  description: Names of the nodes that apply the unit after the pods that use shares of their cards have terminated.
  returned: always
  type: list
  elements: str
  sample: []
workloads:
  description: Workloads and pending pods with requests that would change their meaning, with one sentence for each
    workload or pod.
  returned: always
  type: list
  elements: str
  sample: ['Deployment default/web: main requests 8: 8 GiB until now, 8 MiB in units of 1MiB']
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.unit_change import describe_request, plan_unit_change
    from accelkit.model.units import parse_unit
    from accelkit.vendors.dialects import load_dialects


def main():
    module = api_module(
        unit={"type": "str", "required": True},
        former_unit={"type": "str", "default": ""},
        accept_change={"type": "bool", "default": False},
        dialects={"type": "list", "elements": "str", "default": ["native"]},
    )
    unit_bytes, change = call(module, lambda api: _change(api, module.params))
    workloads = [describe_request(each, change.before, unit_bytes) for each in change.workloads]
    found = {
        "before": list(change.before),
        "refusals": dict(change.refusals),
        "finer": list(change.finer),
        "waiting": list(change.waiting),
        "workloads": workloads,
    }
    if change.refusals:
        listing = "; ".join(f"{node}: {reason}" for node, reason in change.refusals.items())
        module.fail_json(msg=f"the unit {module.params['unit']} is too small for these nodes: {listing}", **found)
    if workloads and not module.params["accept_change"]:
        module.fail_json(
            msg=(
                f"in units of {module.params['unit']} the requests of {len(workloads)} "
                f"{'workload' if len(workloads) == 1 else 'workloads'} mean another amount: "
                f"{', '.join(workloads)}; rewrite them together with the change, and accept it with "
                "accept_change: true (site.yml: accelkit_unit_change: accept)"
            ),
            **found,
        )
    module.exit_json(changed=False, unit_bytes=unit_bytes, **found)


async def _change(api, given):
    unit_bytes = parse_unit(given["unit"])
    resources = [dialect.resources.memory for dialect in load_dialects(given["dialects"])]
    former = parse_unit(given["former_unit"]) if given["former_unit"] else None
    return unit_bytes, await plan_unit_change(api, unit_bytes, resources, former_unit_bytes=former)


if __name__ == "__main__":
    main()
