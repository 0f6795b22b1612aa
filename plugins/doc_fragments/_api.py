# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # Options of all modules that call the API server, in addition to those of the connection.
    DOCUMENTATION = r"""
options:
  request_timeout:
    description:
      - Timeout for each request to the API server, in seconds.
    type: int
    default: 30
requirements:
  - The Python package C(accelkit) on the host that runs the module. Run the module on the controller.
"""
