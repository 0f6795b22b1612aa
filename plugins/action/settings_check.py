# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import json
from difflib import get_close_matches

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem
from ansible_collections.accelkit.kubernetes.plugins.modules.settings_check import DOCUMENTATION
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._documented import read_argument_spec

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.model.units import parse_size, parse_unit
except ImportError as exc:
    IMPORT_ERROR = exc

PREFIX = "accelkit_"
MAX_PORT = 65535


class ActionModule(ActionBase):
    """Action that checks variables. A module cannot check them, because only the controller has the variables."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if problem := find_problem(IMPORT_ERROR):
            raise AnsibleActionFail(problem)
        _result, given = self.validate_argument_spec(argument_spec=read_argument_spec(DOCUMENTATION))
        settings = given["settings"]
        errors = [*find_unknown(settings, task_vars), *self._find_wrong(settings, task_vars)]
        if errors:
            raise AnsibleActionFail("; ".join(errors), result={"errors": errors})
        return {"changed": False}

    def _find_wrong(self, settings, task_vars):
        for name, specification in settings.items():
            if name not in task_vars:
                continue
            try:
                value = self._templar.template(task_vars[name])
            except AnsibleError as exc:
                yield f"{name} cannot be evaluated: {exc}"
                continue
            if value is not None and value != "":
                yield from find_errors(name, value, dict(specification))


def find_unknown(settings, task_vars):
    """Yield an error for each host variable that has the prefix of settings but is not a known setting."""
    hosts = task_vars.get("hostvars") or {}
    names = {name for host in hosts for name in hosts.raw_get(host)} if hasattr(hosts, "raw_get") else set(task_vars)
    for name in sorted(str(name) for name in names):
        if name.startswith(PREFIX) and name not in settings:
            near = get_close_matches(name, settings, n=1)
            yield f"{name} is not known" + (f"; {near[0]} is" if near else "")


def find_errors(name, value, specification):
    """Yield the errors in the value of a setting."""
    form = specification.pop("format", None)
    if form == "list" and isinstance(value, str):
        meant = [part.strip() for part in value.split(",")]
        yield (
            f"{name} is a text, not a list; write it as {json.dumps(meant)}, "
            f"on the command line as -e '{json.dumps({name: meant})}'"
        )
        return
    result = ArgumentSpecValidator({name: specification}).validate({name: value})
    if result.error_messages:
        yield from (f"{name}: {text}" if name not in text else text for text in result.error_messages)
    elif text := find_misformat(form, result.validated_parameters[name]):
        yield f"{name}: {text}"


def find_misformat(form, value):
    """Return the reason why a value does not have the required format; None if it has this format."""
    try:
        if form == "unit":
            parse_unit(value)
        elif form == "size":
            parse_size(value)
    except AccelkitError as exc:
        return str(exc)
    if form == "port" and not 0 <= value <= MAX_PORT:
        return f"{value} is not a valid port; choose one up to {MAX_PORT}, or 0 for none"
    return None
