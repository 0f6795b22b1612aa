"""Ends ansible-playbook, as a power cut would, before the task KILL_AT of those that may change something."""

from __future__ import annotations

import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kill_at
type: aggregate
short_description: Ends ansible-playbook before a task
description: Ends it by SIGKILL.
"""

# Cut off before one of these, the state is the one that the next task finds.
ONLY_READS = (
    "assert",
    "debug",
    "fail",
    "import_role",
    "include_role",
    "include_tasks",
    "set_fact",
    "stat",
    "uri",
    "validate_argument_spec",
    "k8s_cluster_info",
    "k8s_info",
    "unit_check",
)


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._left = int(os.environ["KILL_AT"])

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002 - Ansible's signature
        if task.action.rpartition(".")[2] in ONLY_READS:
            return
        if self._left == 0:
            # No task is under way between two tasks, so this is all of it.
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
