# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# Private to this collection: no promise is made about it.

from __future__ import annotations

import threading
import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# A module returns nothing until it ends, so a wait is shown from here, in the output of any runner of playbooks.
SHOW_SECONDS = 15.0

display = Display()


class Progress:
    """Shows every 15 seconds what is waited for, for how long, and until when; a context manager.

    Attributes:
        waiting: what is waited for, as `3 of 5 nodes: a, b, c`; may change meanwhile.

    Args:
        host: for which it is waited.
        waiting: what is waited for.
        seconds: for how long at most; 0 where that is not known.
    """

    def __init__(self, host, waiting, seconds=0):
        self._host, self.waiting, self._seconds = host, waiting, float(seconds)
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._ended.set()
        self._thread.join()

    @property
    def elapsed(self):
        """Seconds since it was begun to wait."""
        return time.monotonic() - self._began

    def _show(self):
        while not self._ended.wait(SHOW_SECONDS):
            limit = f" of {self._seconds:.0f} s" if self._seconds else ""
            display.display(f"[{self._host}] waiting for {self.waiting} ({self.elapsed:.0f} s{limit})")


class WaitingAction(ActionBase):
    """Runs the module of its own name, and shows what that waits for.

    A module that waits in slices is called again and again. Where it is not done in time it fails with `waiting_for`,
    and with `sentence`, which says what is wrong.

    Attributes:
        option: the option with the wait in seconds.
        default: its default.
        what: what is waited for, until the module says more.
        slices: whether the module waits in slices.
        looks_at_once: whether a module that waits in slices reports what is not done yet also when it waits 0 s.
    """

    _supports_check_mode = True
    _supports_diff = True
    option = "timeout"
    default = 0
    what = ""
    slices = False
    looks_at_once = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        limit = self.find_limit(self._task.args)
        with Progress((task_vars or {}).get("inventory_hostname", ""), self.what, limit) as progress:
            if self.slices and limit:
                return self._run_slices(progress, limit, task_vars)
            return self._execute_module(task_vars=task_vars)

    def find_limit(self, arguments):
        """Return for how many seconds the module waits at most; 0 where that is not known."""
        return float(arguments.get(self.option, self.default))

    def _run_slices(self, progress, limit, task_vars):
        # What changes anything is done by the first call, which waits for nothing.
        first = result = self._call(0, task_vars)
        if not self.looks_at_once and not first.get("failed"):
            result = self._call(min(SHOW_SECONDS, limit), task_vars)
        while result.get("waiting_for") and progress.elapsed < limit:
            progress.waiting = result["waiting_for"]
            result = self._call(min(SHOW_SECONDS, limit - progress.elapsed), task_vars)
        if result.get("waiting_for"):
            # Its own message and error name the last slice.
            whole = {key: result[key] for key in result if key != "exception"}
            return {**whole, "msg": f"after {limit:g} s {result['sentence']}"}
        if first.get("changed") and not result.get("failed"):
            return {**result, **{key: first[key] for key in ("changed", "before", "after", "diff") if key in first}}
        return result

    def _call(self, seconds, task_vars):
        arguments = {**self._task.args, self.option: max(1, round(seconds)) if seconds else 0}
        return self._execute_module(module_args=arguments, task_vars=task_vars)
