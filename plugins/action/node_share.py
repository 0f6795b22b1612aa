# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._waiting import WaitingAction


class ActionModule(WaitingAction):
    """Action that reports nodes that do not advertise their cards yet, or kubelets that still advertise resources."""

    option = "wait_seconds"
    what = "kubelets to drop the resources"
    reads_without_limit = False

    def find_limit(self, arguments):
        """Return the timeout in seconds. The module waits in slices only with state=present."""
        self.slices = arguments.get("state", "present") == "present"
        return super().find_limit(arguments) if self.slices else float(arguments.get("grace_seconds", 420))
