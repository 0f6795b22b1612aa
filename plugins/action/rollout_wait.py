# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._waiting import WaitingAction


class ActionModule(WaitingAction):
    """Action that reports which pods are not ready yet, or that no pod holds the Lease."""

    default = 120
    what = "the rollout"
    slices = True
