# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

import shlex
import sys
from importlib.metadata import PackageNotFoundError, version

from ansible.module_utils.basic import AnsibleModule

# The version in galaxy.yml, which is missing on hosts that run a module. A test compares the versions.
COLLECTION_VERSION = "0.1.0"


def require_accelkit(module: AnsibleModule, trace: str | None) -> None:
    """Exit a module with an error unless accelkit is installed with the same version as the collection.

    `trace` is the traceback of a failed import.
    """
    problem = find_problem(trace)
    if problem is not None:
        module.fail_json(msg=problem, **({"exception": trace} if trace else {}))


def find_problem(failure: ImportError | str | None) -> str | None:
    """Return the problem with the Python package accelkit on this machine, and its solution; None if no problem exists.

    `failure` is the error, or its traceback, if a part of the package cannot be imported.
    """
    try:
        installed = version("accelkit")
    except PackageNotFoundError:
        installed = None
    if installed is None:
        problem = f"{sys.executable} has no Python package accelkit"
    elif installed != COLLECTION_VERSION:
        problem = (
            f"{sys.executable} has version {installed} of the Python package accelkit, but the collection "
            f"accelkit.kubernetes has version {COLLECTION_VERSION}"
        )
    elif failure is not None:
        reason = str(failure).strip().splitlines()[-1]
        problem = f"{sys.executable} cannot import the Python package accelkit ({reason})"
    else:
        return None
    return f"{problem}; install it by `{shlex.quote(sys.executable)} -m pip install 'accelkit=={COLLECTION_VERSION}'`"
