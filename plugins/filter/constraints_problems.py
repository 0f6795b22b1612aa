# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: constraints_problems
short_description: List the workloads that OpenShift would reject
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Checks the pod templates of workloads against the SecurityContextConstraints of their ServiceAccounts, in the same
    way as OpenShift.
options:
  _input:
    description: The workloads, as returned by the API server.
    type: list
    elements: dict
    required: true
  constraints:
    description: The SecurityContextConstraints, as returned by the API server.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if OpenShift would reject a workload
  ansible.builtin.assert:
    that: (workloads | accelkit.kubernetes.constraints_problems(constraints)) == []
"""

RETURN = r"""
_value:
  description: Sorted list of the problems, with one sentence for each problem.
  type: list
  elements: str
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.enablement.openshift.account_constraints import find_refused
    from accelkit.errors import AccelkitError
except ImportError as exc:
    IMPORT_ERROR = exc


def constraints_problems(workloads, constraints):
    """Return the workloads that OpenShift would reject, with the reasons."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    # A round trip through JSON converts the types of Ansible to plain types.
    try:
        return find_refused(json.loads(json.dumps(workloads)), json.loads(json.dumps(constraints)))
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"constraints_problems": constraints_problems}
