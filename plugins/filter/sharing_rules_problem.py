# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: sharing_rules_problem
short_description: Check sharing rules
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Checks quotas and reservations in the same way as the extender does at startup. The extender exits if they are
    invalid.
options:
  _input:
    description: The rules, with the keys C(quotas) and C(reservations).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the sharing rules are invalid
  ansible.builtin.assert:
    that: (rules | accelkit.kubernetes.sharing_rules_problem) == ''
  vars:
    rules:
      quotas:
        - {namespaces: [ml], memory: 64GiB}
"""

RETURN = r"""
_value:
  description: The error, or an empty string if the rules are valid.
  type: str
  sample: "the sharing rules are invalid: quotas[0]: no limit is set"
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.placement.sharing.rules import read_rules
except ImportError as exc:
    IMPORT_ERROR = exc


def sharing_rules_problem(rules):
    """Return the error in the rules, or an empty string if they are valid."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    try:
        # A round trip through JSON converts the types of Ansible to plain types.
        read_rules(json.loads(json.dumps(rules)))
    except AccelkitError as exc:
        return str(exc)
    except (TypeError, ValueError) as exc:
        return f"the sharing rules are invalid: {exc}"
    return ""


class FilterModule:
    def filters(self):
        return {"sharing_rules_problem": sharing_rules_problem}
