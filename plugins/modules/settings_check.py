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
  - Fails if one of the host's variables has an invalid value.
  - Fails if any host has an unknown variable with a name that starts with C(accelkit_). The message contains the most
    similar known name.
  - Variables with an empty value are treated as unset.
extends_documentation_fragment:
  - accelkit.kubernetes._attributes
attributes:
  check_mode:
    support: full
    details: The module does not change anything.
  diff_mode:
    support: none
    details: The module does not change anything.
  action:
    description: Runs on the controller.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
options:
  settings:
    description:
      - The argument specification of each variable, by name, in the same format as in role argument specifications.
      - In addition, C(format) can be C(unit) for a memory unit, C(size) for an amount of memory, or C(port) for a port
        number or 0. With C(list), a string with comma-separated values is rejected.
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
  description: The errors, with one sentence for each error.
  returned: failure
  type: list
  elements: str
  sample: ['accelkit_polcy is not known; accelkit_policy is']
"""
