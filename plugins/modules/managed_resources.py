#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: managed_resources
short_description: Record the resources for which each kube-scheduler calls the extender
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Writes the ConfigMap C(accelkit-managed-resources). A node agent advertises a resource only while this record
    contains the resource.
  - Run the module after you have configured every kube-scheduler. If a kube-scheduler runs on a node that is not in
    O(schedulers), the module does not add resources, and returns the reason.
  - The module detects a kube-scheduler only if it runs as a pod in C(kube-system).
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
      - V(present) writes the record.
      - V(absent) deletes the record. Node agents then stop advertising resources.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description:
      - Namespace of the record and of the node agents.
    type: str
    default: accelkit
  resources:
    description:
      - Extended resources for which the schedulers call the extender.
    type: list
    elements: str
    default: [accelkit.io/memory, accelkit.io/cards]
  schedulers:
    description:
      - Names of the nodes on which kube-scheduler was configured.
      - By default, the module does not check which nodes run a kube-scheduler.
    type: list
    elements: str
  complete:
    description:
      - Whether every known kube-scheduler was configured. With V(false), the module removes resources from the record,
        but does not add resources.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Record that all schedulers call the extender
  accelkit.kubernetes.managed_resources:
    schedulers: [control-plane-1, control-plane-2, control-plane-3]

- name: Find resources that are recorded or advertised but no longer needed
  accelkit.kubernetes.managed_resources:
    resources: [accelkit.io/memory, accelkit.io/cards]
  check_mode: true
  register: managed

- name: Withdraw all resources
  accelkit.kubernetes.managed_resources:
    state: absent
"""

RETURN = r"""
resources:
  description: The recorded resources after the task.
  returned: success
  type: list
  elements: str
  sample: [accelkit.io/cards, accelkit.io/memory]
recorded:
  description: The recorded resources before the task. The value is null if no readable record existed.
  returned: success
  type: list
  elements: str
  sample: null
offered:
  description: Names of the nodes on which a node agent advertises each resource, by resource.
  returned: success
  type: dict
  sample: {accelkit.io/memory: [node-1]}
former:
  description: Resources that are recorded or advertised but not in O(resources).
  returned: success
  type: list
  elements: str
  sample: []
former_dialects:
  description: Dialects in which pods request the resources in RV(former).
  returned: success
  type: list
  elements: str
  sample: []
problem:
  description: >-
    A kube-scheduler that possibly does not call the extender, so that the module does not add resources. The value is
    empty if no such kube-scheduler is known.
  returned: success
  type: str
  sample: ''
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.managed_resources import delete_record, record_managed


def main():
    module = api_module(
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        namespace={"type": "str", "default": "accelkit"},
        resources={
            "type": "list",
            "elements": "str",
            "default": ["accelkit.io/memory", "accelkit.io/cards"],
        },
        schedulers={"type": "list", "elements": "str"},
        complete={"type": "bool", "default": True},
    )
    result = call(module, lambda api: _apply(api, module))
    recorded = None if result.recorded is None else list(result.recorded)
    missing = sorted(set(module.params["resources"]) - set(result.resources))
    if result.problem and missing and not module.check_mode:
        module.warn(f"{', '.join(missing)} not added to the record of managed resources: {result.problem}")
    module.exit_json(
        changed=result.changed,
        recorded=recorded,
        resources=list(result.resources),
        offered={name: list(nodes) for name, nodes in result.offered.items()},
        former=list(result.former),
        former_dialects=list(result.former_dialects),
        problem=result.problem,
        diff={"before": {"resources": recorded}, "after": {"resources": list(result.resources)}},
    )


async def _apply(api, module):
    given = module.params
    if given["state"] == "absent":
        return await delete_record(api, namespace=given["namespace"], check=module.check_mode)
    return await record_managed(
        api,
        namespace=given["namespace"],
        resources=given["resources"],
        schedulers=given["schedulers"],
        complete=given["complete"],
        check=module.check_mode,
    )


if __name__ == "__main__":
    main()
