# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._waiting import WaitingAction


class ActionModule(WaitingAction):
    """Shows which nodes do not offer their cards yet, or that kubelets have not given up the resources."""

    option = "wait_seconds"
    what = "kubelets to give up the resources"
    reads_without_limit = False

    def find_limit(self, arguments):
        """Return for how many seconds the module waits at most; only for offers in slices."""
        self.slices = arguments.get("state", "present") == "present"
        return super().find_limit(arguments) if self.slices else float(arguments.get("grace_seconds", 420))
