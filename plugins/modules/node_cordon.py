#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_cordon
short_description: Cordon a node for a driver upgrade, or uncordon it
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - In the annotation C(accelkit.io/driver-upgrade), records the progress of the upgrade, and whether the upgrade
    cordoned the node. Therefore, an interrupted upgrade can continue from the recorded phase.
  - The module does not uncordon a node that another user or controller cordoned.
  - The module sets the cordon and the record in a single request. It also removes the cordon and the record in a single
    request.
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
      - V(cordoned) starts an upgrade, or continues an interrupted upgrade. RV(phase) contains the phase of the upgrade.
      - V(advanced) starts the phase in O(phase). It fails if the node was uncordoned in the meantime.
      - V(released) finishes the upgrade. It uncordons the node, unless another user or controller cordoned the node.
    type: str
    choices: [cordoned, advanced, released]
    required: true
  name:
    description:
      - Name of the node.
    type: str
    required: true
  target:
    description:
      - With O(state=cordoned), the version to upgrade to.
      - If an interrupted upgrade had another target version, the upgrade starts from the first phase.
    type: str
    default: ""
  phase:
    description:
      - With O(state=advanced), the phase to start.
    type: str
    choices: [upgrade, validate]
  began_at:
    description:
      - With O(state=advanced), the value of RV(began_at) of this upgrade.
    type: float
  failure:
    description:
      - With O(state=released), the reason why the upgrade failed. Leave it empty if the upgrade succeeded.
      - The reason is recorded on the node until the next upgrade of the node starts.
    type: str
    default: ""
  keep_cordoned:
    description:
      - With O(state=released), whether a node remains cordoned after a failed upgrade, until its next upgrade finishes.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Cordon the node for the upgrade
  accelkit.kubernetes.node_cordon:
    state: cordoned
    name: worker-1
    target: 550.54.14
  register: upgrade

- name: Finish the upgrade and uncordon the node
  accelkit.kubernetes.node_cordon:
    state: released
    name: worker-1
"""

RETURN = r"""
phase:
  description: >-
    The current phase, V(drain), V(upgrade), V(validate) or V(failed). The value is empty if no upgrade is in progress
    on the node.
  returned: success
  type: str
  sample: drain
ours:
  description: Whether this upgrade cordoned the node.
  returned: success
  type: bool
began_at:
  description: >-
    Start time of the upgrade, as a Unix timestamp in seconds. The value is 0 if no upgrade is in progress on the node.
  returned: success
  type: float
"""

import time
from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.drivers.upgrading.cordon import take_step
    from accelkit.enablement.drivers.upgrading.record import Phase, UpgradeRecord, advance, begin, end

RULES = {"required_if": [("state", "advanced", ("phase", "began_at"))]}


def main():
    module = api_module(
        constraints=RULES,
        state={"type": "str", "choices": ["cordoned", "advanced", "released"], "required": True},
        name={"type": "str", "required": True},
        target={"type": "str", "default": ""},
        phase={"type": "str", "choices": ["upgrade", "validate"]},
        began_at={"type": "float"},
        failure={"type": "str", "default": ""},
        keep_cordoned={"type": "bool", "default": False},
    )
    given = module.params

    def decide(node):
        now = time.time()
        if given["state"] == "cordoned":
            return begin(node, given["target"], now)
        if given["state"] == "advanced":
            began = UpgradeRecord(Phase.DRAIN, began_at=given["began_at"])
            return advance(node, began, Phase(given["phase"]), now)
        reason = "UpgradeFailed" if given["failure"] else None
        return end(node, now, reason=reason, evidence=given["failure"], keep_cordoned=given["keep_cordoned"])

    node, step = call(module, lambda api: take_step(api, given["name"], decide, check=module.check_mode))
    record = step.record
    after = node.unschedulable if step.unschedulable is None else step.unschedulable
    phase = str(record.phase) if record else ""
    module.exit_json(
        changed=step.changed,
        phase=phase,
        ours=bool(record and record.ours),
        began_at=record.began_at if record else 0.0,
        diff={"before": {"cordoned": node.unschedulable}, "after": {"cordoned": after, "phase": phase}},
    )


if __name__ == "__main__":
    main()
