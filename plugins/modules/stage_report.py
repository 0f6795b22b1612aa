#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: stage_report
short_description: Report the enablement stages of each node
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns the result of each enablement stage on each node, with the reason, the evidence and the next action.
  - The module returns the same report as C(accelkit verify). It can write the report to files for CI systems and
    browsers.
  - The module also audits the cards, as C(accelkit audit) does. It reports only differences that persist for 20
    seconds.
  - The module does not fail if a stage failed or the audit found differences. RV(faults) lists the failures.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: In check mode, the module does not write files. It never changes the cluster.
  diff_mode:
    support: none
    details: The module always writes the complete report.
options:
  nodes:
    description:
      - Names of the nodes to examine.
      - By default, the module examines all nodes that are shared or have cards.
    type: list
    elements: str
    default: []
    aliases: [node]
  namespace:
    description:
      - Namespace of accelkit.
    type: str
    default: accelkit
  wait_seconds:
    description:
      - Minimum duration of a failure, in seconds. If a failure does not last this long, it is treated as a change in
        progress.
    type: float
    default: 10
  driver_mode:
    description:
      - How accelkit installs drivers on the nodes. The report needs this information for the stage C(driver), because
        it cannot detect packages through the API server.
    type: str
    choices: [preinstalled, package, container, kmm]
  folder:
    description:
      - Folder for the report, on the host that runs the module. The module creates the folder if it does not exist.
      - By default, the module does not write the report to files.
    type: path
  formats:
    description:
      - Formats of the files. The file names are V(stages.txt), V(stages.json), V(stages.junit.xml), V(stages.ctrf.json)
        and V(stages.html).
    type: list
    elements: str
    choices: [text, json, junit, ctrf, html]
    default: [text, json, junit, ctrf, html]
seealso:
  - module: accelkit.kubernetes.memory_check
"""

EXAMPLES = r"""
- name: Report the stages of all nodes for CI
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
  description: The report, in the format of C(accelkit verify -o json).
  returned: success
  type: dict
  contains:
    outcome:
      description: The worst outcome on all nodes, V(pass), V(skipped), V(stale), V(unknown) or V(fail).
      type: str
      sample: pass
    exit_code:
      description: Exit code of C(accelkit verify), 0, 3 or 4.
      type: int
      sample: 0
    summary:
      description: One entry for each stage, with the number of nodes for each outcome.
      type: list
      elements: dict
    accounting:
      description: >-
        Outcome of the audit, with V(differences) and V(notes), and with V(problem) if no comparison was possible.
      type: dict
    nodes:
      description: One entry for each node, with its state and, in V(stages), the result of each stage.
      type: list
      elements: dict
faults:
  description: The failures. A single sentence lists all nodes with the same failure.
  returned: success
  type: list
  elements: str
  sample: ["stage device-plugin: fail (AgentMissing) on node-1: the node agent: its pod is missing on the node; ..."]
doubts:
  description: Stale and unknown results. A single sentence lists all nodes with the same result.
  returned: success
  type: list
  elements: str
  sample: []
files:
  description: Paths of the written files. In check mode, paths of the files that would be written.
  returned: if O(folder) is set
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
