# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # Attributes of all modules.
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: In check mode, returns the changes that it would make, but does not make any changes.
  diff_mode:
    description: In diff mode, returns the changes that it made, or, in check mode, would make. """

    ACTIONGROUP_API = r"""
attributes:
  action_group:
    description: Uses the defaults in C(module_defaults) for its action group.
    support: full
    membership:
      - accelkit.kubernetes.api
"""

    ACTIONGROUP_REGISTRY = r"""
attributes:
  action_group:
    description: Uses the defaults in C(module_defaults) for its action group.
    support: full
    membership:
      - accelkit.kubernetes.registry
"""

    ACTIONGROUP_BOTH = r"""
attributes:
  action_group:
    description: Uses the defaults in C(module_defaults) for its action groups.
    support: full
    membership:
      - accelkit.kubernetes.api
      - accelkit.kubernetes.registry
"""
