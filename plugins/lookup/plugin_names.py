# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: plugin_names
short_description: List accelkit's plug-ins on the controller
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns the names of the dialects and policies that other Python packages on the controller add to accelkit.
  - The lists are empty if the Python package C(accelkit) is not installed. Modules and plugins that need the package
    report that it is missing.
"""

EXAMPLES = r"""
- name: Print the policies from other Python packages
  ansible.builtin.debug:
    msg: "{{ lookup('accelkit.kubernetes.plugin_names').policies }}"
"""

RETURN = r"""
_raw:
  description: A single dictionary.
  type: list
  elements: dict
  contains:
    dialects:
      description: Names of dialects.
      type: list
      elements: str
      sample: [orrery]
    policies:
      description: Names of policies.
      type: list
      elements: str
      sample: [smallest-card]
"""

from ansible.plugins.lookup import LookupBase

try:
    from accelkit.plugins.catalogue import list_plugin_names
    from accelkit.plugins.interface import DIALECTS, POLICIES
except ImportError:
    list_plugin_names = None


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **_kwargs):  # noqa: ARG002 - the arguments of every lookup
        if list_plugin_names is None:
            return [{"dialects": [], "policies": []}]
        return [{"dialects": list_plugin_names(DIALECTS), "policies": list_plugin_names(POLICIES)}]
