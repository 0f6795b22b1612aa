#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: settings_check
short_description: Check the variables of accelkit's playbooks
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Fails where a variable of the host has a wrong value, or where one of any host has a name that begins with
    C(accelkit_) and is not known; the nearest known name is shown.
  - A variable whose value is the empty text counts as not set.
extends_documentation_fragment:
  - accelkit.kubernetes._attributes
attributes:
  check_mode:
    support: full
    details: It changes nothing.
  diff_mode:
    support: none
    details: It changes nothing.
  action:
    description: Runs on the controller.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
options:
  settings:
    description:
      - By name of the variable its argument specification, as roles have it.
      - >-
        Beside that, C(format) may be C(unit) for a unit of memory, C(size) for an amount of memory, C(port) for a
        port or 0, or C(list) for a list that must not be written as a text with commas.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Check the variables
  accelkit.kubernetes.settings_check:
    settings:
      accelkit_policy: {type: str, choices: [binpack, spread, topology]}
      accelkit_unit: {type: str, format: unit}
"""

RETURN = r"""
errors:
  description: What is wrong, one sentence each.
  returned: failure
  type: list
  elements: str
  sample: ['accelkit_polcy is not known; accelkit_policy is']
"""
