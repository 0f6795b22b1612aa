# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: dialect
short_description: Look up a dialect by its name
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns the properties of a dialect that playbooks need. The filter reads these properties from the same file as
    accelkit's services.
options:
  _input:
    description: Name of the dialect, for example V(gcushare).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Print the resources that pods of GCUShare use to request cards
  ansible.builtin.debug:
    msg: "{{ ('gcushare' | accelkit.kubernetes.dialect).resources }}"
"""

RETURN = r"""
_value:
  description: Properties of the dialect.
  type: dict
  contains:
    name:
      description: Name of the dialect.
      type: str
      sample: gcushare
    advertised:
      description: >-
        Whether accelkit's node agent can advertise the resources. Otherwise, another system's device plugin advertises
        them.
      type: bool
      sample: true
    resources:
      description: Extended resources that a container uses to request cards.
      type: list
      elements: str
      sample: [enflame.com/gcu-memory, enflame.com/gcu-count]
    guarded:
      description:
        - Extended resources that give a container access to the device nodes of cards, including resources for
          monitoring only.
        - Admission policies restrict the pods that request these resources.
      type: list
      elements: str
      sample: [enflame.com/gcu-memory, enflame.com/gcu-count]
    annotations:
      description: >-
        Keys of the pod annotations that contain the cards of a pod. The list is empty if the dialect does not use such
        annotations.
      type: list
      elements: str
      sample: [enflame.com/gcu-device-id]
    plugin_writes:
      description: Whether another system's device plugin writes these annotations.
      type: bool
      sample: false
    log_folder:
      description: Folder on the hosts for the services' logs.
      type: str
      sample: /var/log/topscloud/gcushare
    unhealthy_cards:
      description: Whether users can list unhealthy cards in ConfigMaps.
      type: bool
      sample: false
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.vendors.dialects import load_dialect
except ImportError as exc:
    IMPORT_ERROR = exc


def dialect(name):
    """Return the properties of a dialect that playbooks need."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    try:
        found = load_dialect(str(name))
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    return {
        "name": found.name,
        "advertised": found.advertised,
        "resources": list(found.resources.requestable),
        "guarded": list(found.resources.with_devices),
        "annotations": list(found.annotations.keys) if found.annotations else [],
        "plugin_writes": found.plugin_writes,
        "log_folder": found.logs.folder,
        "unhealthy_cards": found.unhealthy_cards is not None,
    }


class FilterModule:
    def filters(self):
        return {"dialect": dialect}
