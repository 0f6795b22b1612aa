# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: duration_seconds
short_description: Convert a Go duration to seconds
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Converts a duration in the format of kube-scheduler's configuration to seconds.
options:
  _input:
    description: The duration, for example V(10s) or V(1m30s).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Print a duration in seconds
  ansible.builtin.debug:
    msg: "{{ '1m30s' | accelkit.kubernetes.duration_seconds }}"
"""

RETURN = r"""
_value:
  description: The duration in seconds.
  type: float
  sample: 90.0
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.scheduler.configuration.extender_entry import parse_duration
except ImportError as exc:
    IMPORT_ERROR = exc


def duration_seconds(duration):
    """Return a Go duration in seconds."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    try:
        return parse_duration(str(duration)) / 1e9
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"duration_seconds": duration_seconds}
