"""Ends ansible-playbook, as a power cut would, right after a task that changed something.

It ends once after each kind of module, or after each task on each host where CUT_OFF_EVERYWHERE is set; of those alone
in whose names the regular expression CUT_OFF_TASKS is found, where that is set. The file that CUT_OFF_FILE names lists
where it has ended already, so that the same command, run again and again, comes to its end.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: cut_off
type: aggregate
short_description: Ends ansible-playbook after a change
description: Ends it by SIGKILL.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible has no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "cut_off"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        if not result.is_changed() or not re.search(os.environ.get("CUT_OFF_TASKS", ""), result.task.get_name()):
            return
        module = result.task.action.rpartition(".")[2]
        everywhere = os.environ.get("CUT_OFF_EVERYWHERE")
        place = f"{module}: {result.task.get_name()}: {result.host.get_name()}" if everywhere else module
        ended = Path(os.environ["CUT_OFF_FILE"])
        if place in ended.read_text().splitlines():
            return
        with ended.open("a") as file:
            file.write(f"{place}\n")
        # One host has a task at a time, and its task has ended, so no process of a module is under way.
        os.kill(os.getpid(), signal.SIGKILL)
