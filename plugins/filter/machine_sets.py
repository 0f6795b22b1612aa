# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: machine_sets
short_description: Generate OpenShift MachineSets from existing MachineSets
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns a MachineSet for each requested set, derived from an existing MachineSet in the cluster. Also returns the
    objects that OpenShift's operators use to scale these MachineSets.
  - If an autoscaler scales a MachineSet, the filter does not change the number of machines.
options:
  _input:
    description:
      - The requested sets, each with C(name) and C(source), which is the name of the existing MachineSet.
      - Additional keys are C(replicas), C(autoscale) with C(min) and C(max), C(instance_type), C(instance_type_field),
        C(provider_spec), C(accelerator), C(capacity), C(labels) and C(taints).
    type: list
    elements: dict
    required: true
  existing:
    description: The existing MachineSets in the cluster.
    type: list
    elements: dict
    required: true
  labels:
    description: Labels of the objects.
    type: dict
    required: true
  cluster_autoscaler:
    description: Specification of the ClusterAutoscaler. If it is empty, the filter does not return a ClusterAutoscaler.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Apply a MachineSet with cards
  kubernetes.core.k8s:
    definition: "{{ sets | accelkit.kubernetes.machine_sets(existing=found.resources, labels={'a': 'b'}) }}"
    apply: true
  vars:
    sets:
      - {name: cards-a, source: worker-a, instance_type: g6e.12xlarge, autoscale: {min: 0, max: 4}}
"""

RETURN = r"""
_value:
  description: The MachineSets, the MachineAutoscalers and the ClusterAutoscaler.
  type: list
  elements: dict
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.enablement.openshift.autoscalers import write_machine_objects
    from accelkit.enablement.openshift.machine_sets import read_desired_machine_sets
    from accelkit.errors import AccelkitError
except ImportError as exc:
    IMPORT_ERROR = exc


def machine_sets(desired, existing, labels, cluster_autoscaler=None):
    """Return the MachineSets for the requested sets, and the objects that scale them."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    # A round trip through JSON converts the types of Ansible to plain types.
    given = json.loads(json.dumps([desired, existing, labels, cluster_autoscaler or {}]))
    try:
        return write_machine_objects(read_desired_machine_sets(given[0]), *given[1:])
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"machine_sets": machine_sets}
