# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: security_constraints
short_description: Add the constraints that OpenShift needs to admit the pods of workloads
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - For each ServiceAccount, computes the most restrictive SecurityContextConstraints that allow OpenShift to admit the
    pods of the workloads. Returns the constraints, followed by the objects.
  - The constraints have the labels of the first workload that uses their ServiceAccount.
options:
  _input:
    description: The objects to apply.
    type: list
    elements: dict
    required: true
  created_in:
    description:
      - Namespace in which accelkit's programs create pods to fill volumes and to check nodes. The filter adds
        constraints for these pods.
      - The constraints for these pods have the labels in O(labels).
    type: str
    default: ""
  labels:
    description: Labels of the constraints for O(created_in).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Apply workloads with the constraints that OpenShift needs to admit them
  kubernetes.core.k8s:
    definition: "{{ definitions | accelkit.kubernetes.security_constraints }}"
    apply: true
"""

RETURN = r"""
_value:
  description: The constraints, followed by the objects.
  type: list
  elements: dict
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.enablement.openshift.account_constraints import add_constraints, write_created_constraints
    from accelkit.errors import AccelkitError
except ImportError as exc:
    IMPORT_ERROR = exc


def security_constraints(definitions, created_in="", labels=None):
    """Return the constraints that the pods of these objects need, followed by the objects."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    # A round trip through JSON converts the types of Ansible to plain types.
    given = json.loads(json.dumps(definitions))
    try:
        filling = [write_created_constraints(str(created_in), dict(labels or {}))] if created_in else []
        return filling + add_constraints(given)
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"security_constraints": security_constraints}
