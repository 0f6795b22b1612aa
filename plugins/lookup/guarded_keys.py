# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: guarded_keys
short_description: List the keys that admission policies reserve for accelkit's programs
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns keys of annotations, labels and environment variables. The keys are defined in the vendor profiles and
    dialects of this accelkit release, and in accelkit's plug-ins on the controller.
"""

EXAMPLES = r"""
- name: Print the annotations that contain the cards of pods
  ansible.builtin.debug:
    msg: "{{ lookup('accelkit.kubernetes.guarded_keys').assignments }}"
"""

RETURN = r"""
_raw:
  description: A single dictionary.
  type: list
  elements: dict
  contains:
    assignments:
      description: Pod annotations that a scheduler or a device plugin writes, for all dialects.
      type: list
      elements: str
      sample: [accelkit.io/assignment, enflame.com/gcu-device-id]
    runtime_variables:
      description: >-
        Environment variables that a container can use to request cards from a vendor's container runtime.
      type: list
      elements: str
      sample: [NVIDIA_VISIBLE_DEVICES]
    runtime_defaults:
      description: >-
        Environment variables that cause a vendor's container runtime to grant a container access to all cards. The
        value is the name of the variable that prevents this access if it is set.
      type: dict
      sample: {CUDA_VERSION: NVIDIA_VISIBLE_DEVICES}
    runtime_annotations:
      description: Prefixes of pod annotations that request cards from plug-ins of the container runtime.
      type: list
      elements: str
      sample: [nvidia.cdi.k8s.io/]
    container_limits:
      description: >-
        Pod annotations to which the extender writes the amounts that a container can use on its cards. C({container})
        is a placeholder for the name of the container.
      type: list
      elements: str
      sample: ["nvidia.com/container.{container}.gpu-memory.limit"]
    node_annotations:
      description: Node annotations that the node agent writes.
      type: list
      elements: str
      sample: [accelkit.io/inventory]
    node_labels:
      description: >-
        Node labels with a vendor's domain as the prefix, which the node agent writes. The name of the label can be
        followed by a number.
      type: list
      elements: str
      sample: [nvidia.com/gpu.count]
    node_label_prefixes:
      description: Prefixes of the other node labels that the node agent writes.
      type: list
      elements: str
      sample: [accelkit.io/cards.]
"""

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.install.guarded_keys import list_guarded_keys
except ImportError as exc:
    IMPORT_ERROR = exc


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **_kwargs):  # noqa: ARG002 - the arguments of every lookup
        if problem := find_problem(IMPORT_ERROR):
            raise AnsibleLookupError(problem)
        try:
            found = list_guarded_keys()
        except AccelkitError as exc:
            raise AnsibleLookupError(str(exc)) from exc
        return [
            {
                "assignments": list(found.assignments),
                "runtime_variables": list(found.runtime_variables),
                "runtime_defaults": dict(found.runtime_defaults),
                "runtime_annotations": list(found.runtime_annotations),
                "container_limits": list(found.container_limits),
                "node_annotations": list(found.node_annotations),
                "node_labels": list(found.node_labels),
                "node_label_prefixes": list(found.node_label_prefixes),
            }
        ]
