# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# Private to this collection: its interface may change at any time.

from __future__ import annotations

import threading
import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# A module produces no output before it exits, so the action plugin reports the wait in the output of the playbook.
REPORT_SECONDS = 15.0

display = Display()


class Progress:
    """Context manager that reports every 15 seconds what a task is waiting for, the elapsed time, and the timeout.

    Attributes:
        waiting: what the task is waiting for, for example `3 of 5 nodes: a, b, c`. The caller can change this text.

    Args:
        host: the host of the task.
        waiting: what the task is waiting for.
        seconds: the timeout in seconds; 0 if it is unknown.
    """

    def __init__(self, host, waiting, seconds=0):
        self._host, self.waiting, self._seconds = host, waiting, float(seconds)
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report_progress, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._ended.set()
        self._thread.join()

    @property
    def elapsed(self):
        """Seconds since the start of the wait."""
        return time.monotonic() - self._began

    def _report_progress(self):
        while not self._ended.wait(REPORT_SECONDS):
            limit = f" of {self._seconds:.0f} s" if self._seconds else ""
            display.display(f"[{self._host}] waiting for {self.waiting} ({self.elapsed:.0f} s{limit})")


class WaitingAction(ActionBase):
    """Action that runs the module with the same name, and reports what the module is waiting for.

    A module that waits in slices is called repeatedly, each time with a short timeout. If the wait does not finish
    within a slice, the module fails. In this case, its result contains `waiting_for`, and a description of the
    problem in `sentence`.

    Attributes:
        option: the name of the option that sets the timeout in seconds.
        default: the default value of this option.
        what: what the module is waiting for; this text is reported until the module returns `waiting_for`.
        slices: whether the module waits in slices.
        reads_without_limit: whether a module that waits in slices returns `waiting_for` even if its timeout is 0 s.
    """

    _supports_check_mode = True
    _supports_diff = True
    option = "timeout"
    default = 0
    what = ""
    slices = False
    reads_without_limit = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        limit = self.find_limit(self._task.args)
        with Progress((task_vars or {}).get("inventory_hostname", ""), self.what, limit) as progress:
            if self.slices and limit:
                return self._run_slices(progress, limit, task_vars)
            return self._execute_module(task_vars=task_vars)

    def find_limit(self, arguments):
        """Return the timeout in seconds; 0 if it is unknown."""
        return float(arguments.get(self.option, self.default))

    def _run_slices(self, progress, limit, task_vars):
        # The first call makes all changes and does not wait.
        first = result = self._call(0, task_vars)
        if not self.reads_without_limit and not first.get("failed"):
            result = self._call(min(REPORT_SECONDS, limit), task_vars)
        while result.get("waiting_for") and progress.elapsed < limit:
            progress.waiting = result["waiting_for"]
            result = self._call(min(REPORT_SECONDS, limit - progress.elapsed), task_vars)
        if result.get("waiting_for"):
            # The message and the exception of the module refer only to the last slice, so replace them.
            whole = {key: result[key] for key in result if key != "exception"}
            return {**whole, "msg": f"after {limit:g} s {result['sentence']}"}
        if first.get("changed") and not result.get("failed"):
            return {**result, **{key: first[key] for key in ("changed", "before", "after", "diff") if key in first}}
        return result

    def _call(self, seconds, task_vars):
        arguments = {**self._task.args, self.option: max(1, round(seconds)) if seconds else 0}
        return self._execute_module(module_args=arguments, task_vars=task_vars)
