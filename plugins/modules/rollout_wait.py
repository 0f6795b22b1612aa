#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_wait
short_description: Wait until the rollout of a workload is complete
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Waits until all pods of a Deployment or DaemonSet match its current template and are available.
  - With O(lease), the module also waits until one of these pods holds the Lease.
  - Every 15 seconds, the module reports the pods that are not ready, and the elapsed time.
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
  kind:
    description:
      - Kind of the workload.
    type: str
    choices: [DaemonSet, Deployment]
    required: true
  name:
    description:
      - Name of the workload. The label C(app.kubernetes.io/name) of its pods must have this value.
    type: str
    required: true
  namespace:
    description:
      - Namespace of the workload.
    type: str
    required: true
  lease:
    description:
      - Name of a Lease in the same namespace that a pod of the workload must hold. The identity of the holder must be
        the name of the pod, and can have a suffix that starts with C(_).
      - By default, the module does not wait for a leader.
    type: str
  timeout:
    description:
      - Maximum time to wait, in seconds.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Wait for the node agent
  accelkit.kubernetes.rollout_wait:
    kind: DaemonSet
    name: accelkit-node-agent
    namespace: accelkit
    timeout: 300

- name: Wait for the leader of the extender
  accelkit.kubernetes.rollout_wait:
    kind: Deployment
    name: accelkit-extender
    namespace: accelkit
    lease: accelkit-extender
"""

RETURN = r"""
holder:
  description: Identity of the pod that holds the Lease.
  returned: success, if O(lease) is set
  type: str
  sample: accelkit-extender-7d9f8-abcde
pods:
  description: Number of pods in the workload.
  returned: success
  type: int
  sample: 3
waiting_for:
  description: >-
    The condition that was not fulfilled when the timeout expired: pods are not ready, or no pod holds the Lease.
  returned: if the rollout is not complete in time
  type: str
  sample: "2 of 5 pods of DaemonSet accelkit/accelkit-node-agent: node-1, node-2"
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.rollouts import wait_for_rollout


def main():
    module = api_module(
        kind={"type": "str", "choices": ["DaemonSet", "Deployment"], "required": True},
        name={"type": "str", "required": True},
        namespace={"type": "str", "required": True},
        lease={"type": "str"},
        timeout={"type": "int", "default": 120},
    )
    given = module.params
    found = call(
        module,
        lambda api: wait_for_rollout(
            api,
            given["kind"],
            given["namespace"],
            given["name"],
            seconds=given["timeout"],
            lease=given["lease"] or "",
        ),
    )
    result = {"holder": found.holder} if found.holder else {}
    module.exit_json(changed=False, pods=found.desired, **result)


if __name__ == "__main__":
    main()
