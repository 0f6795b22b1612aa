#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: stage_report
short_description: Report which stage of enablement each node has reached
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Judges, for each node, the stages from a bare node to a watched one, each with reason, evidence and next action.
  - It shows what C(accelkit verify) shows, and may write it into files that CI systems and browsers read.
  - It audits the cards too, as C(accelkit audit) does, and counts differences that last for 20 seconds.
  - It does not fail where a stage failed, or the accounting differs; what failed is in RV(faults).
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: It writes no file then, and nothing else at any time.
  diff_mode:
    support: none
    details: A report is written anew each time.
options:
  nodes:
    description:
      - Names of the nodes to judge.
      - Without it, all that are shared or have cards.
    type: list
    elements: str
    default: []
    aliases: [node]
  namespace:
    description:
      - Where accelkit runs.
    type: str
    default: accelkit
  wait_seconds:
    description:
      - How long something that failed must do so, since what is on its way did not.
    type: float
    default: 10
  driver_mode:
    description:
      - How accelkit brings drivers to the nodes, for what is told of the stage C(driver); packages leave no trace in
        the cluster.
    type: str
    choices: [preinstalled, package, container, kmm]
  folder:
    description:
      - Where the report is written, on the host on which the module runs; it is made where it is absent.
      - Without it, nothing is written.
    type: path
  formats:
    description:
      - Which files are written, V(stages.txt), V(stages.json), V(stages.junit.xml), V(stages.ctrf.json) and
        V(stages.html).
    type: list
    elements: str
    choices: [text, json, junit, ctrf, html]
    default: [text, json, junit, ctrf, html]
seealso:
  - module: accelkit.kubernetes.memory_check
"""

EXAMPLES = r"""
- name: Judge the stages of all nodes, and keep the report for CI
  accelkit.kubernetes.stage_report:
    folder: build/reports
    formats: [junit, html]
  register: stages

- name: Fail if a stage failed
  ansible.builtin.assert:
    that: stages.faults == []
    fail_msg: "{{ stages.faults | join('; ') }}"
"""

RETURN = r"""
report:
  description: The report, as C(accelkit verify -o json) prints it.
  returned: success
  type: dict
  contains:
    outcome:
      description: The worst of all, V(pass), V(skipped), V(stale), V(unknown) or V(fail).
      type: str
      sample: pass
    exit_code:
      description: With what C(accelkit verify) would end, 0, 3 or 4.
      type: int
      sample: 0
    summary:
      description: One entry per stage, with the number of nodes by outcome.
      type: list
      elements: dict
    accounting:
      description: Outcome of the audit, with its V(differences), V(notes), and V(problem) where nothing was compared.
      type: dict
    nodes:
      description: One entry per node, with its state and, in V(stages), what was found of each stage.
      type: list
      elements: dict
faults:
  description: What failed, one sentence for all nodes on which it did.
  returned: success
  type: list
  elements: str
  sample: ["stage device-plugin: fail (AgentMissing) on node-1: the node agent: no pod of it is on the node; ..."]
doubts:
  description: What is stale or not known, one sentence for all nodes.
  returned: success
  type: list
  elements: str
  sample: []
files:
  description: Paths of the files that were written; in check mode, that would be.
  returned: when O(folder) is given
  type: list
  elements: str
  sample: [build/reports/stages.html, build/reports/stages.junit.xml]
"""

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call
from ansible_collections.accelkit.kubernetes.plugins.module_utils._stages import described, verified, written

FORMATS = ["text", "json", "junit", "ctrf", "html"]


def main():
    module = api_module(
        nodes={"type": "list", "elements": "str", "default": [], "aliases": ["node"]},
        namespace={"type": "str", "default": "accelkit"},
        wait_seconds={"type": "float", "default": 10},
        driver_mode={"type": "str", "choices": ["preinstalled", "package", "container", "kmm"]},
        folder={"type": "path"},
        formats={"type": "list", "elements": "str", "choices": FORMATS, "default": FORMATS},
    )
    given = module.params
    report = call(module, lambda api: verified(api, given))
    result = described(report)
    if given["folder"]:
        result["files"] = written(module, report, given["folder"], given["formats"])
    module.exit_json(changed=bool(result.get("files")), **result)


if __name__ == "__main__":
    main()
