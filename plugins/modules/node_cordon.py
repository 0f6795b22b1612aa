#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_cordon
short_description: Cordon a node for the upgrade of its driver, and uncordon it again
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Keeps in the annotation C(accelkit.io/driver-upgrade) how far the upgrade of a node is and whether it cordoned the
    node, so that an interrupted run goes on where it ended. A node that somebody else cordoned stays cordoned.
  - Cordon and record are one write, and so are their ends.
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
      - V(cordoned) begins the upgrade, or goes on with one that was interrupted. RV(phase) says where.
      - V(advanced) goes on to O(phase). It fails where somebody uncordoned the node meanwhile.
      - V(released) ends the upgrade and uncordons the node, unless somebody else cordoned it.
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
      - With O(state=cordoned), what the node is upgraded to. An interrupted upgrade to something else begins anew.
    type: str
    default: ""
  phase:
    description:
      - With O(state=advanced), what begins now.
    type: str
    choices: [upgrade, validate]
  began_at:
    description:
      - With O(state=advanced), RV(began_at) of this upgrade.
    type: float
  failure:
    description:
      - With O(state=released), why the upgrade failed; empty where it did not. It stays on the node until its next
        upgrade begins.
    type: str
    default: ""
  keep_cordoned:
    description:
      - With O(state=released), whether a node whose upgrade failed stays cordoned until its next upgrade ends.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Begin
  accelkit.kubernetes.node_cordon:
    state: cordoned
    name: worker-1
    target: 550.54.14
  register: upgrade

- name: End
  accelkit.kubernetes.node_cordon:
    state: released
    name: worker-1
"""

RETURN = r"""
phase:
  description: What is under way, V(drain), V(upgrade), V(validate) or V(failed); empty where nothing is.
  returned: success
  type: str
  sample: drain
ours:
  description: Whether this upgrade cordoned the node.
  returned: success
  type: bool
began_at:
  description: When the upgrade began, in Unix seconds; 0 where none is under way.
  returned: success
  type: float
"""

import time
from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
