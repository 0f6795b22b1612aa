# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.enablement.report.formats import FILE_NAMES, ReportFormat, write_report
    from accelkit.enablement.report.problems import describe_accounting, list_problems
    from accelkit.enablement.report.values import StageReport
    from accelkit.enablement.verifying import verify_cluster
    from accelkit.kube.client import ApiClient
    from accelkit.model.stage import Outcome


async def verified(api: ApiClient, given: dict[str, Any]) -> StageReport:
    """Return the report for the nodes in the module parameters, or for all nodes that are shared or have cards."""
    return await verify_cluster(
        api,
        namespace=given["namespace"],
        nodes=given["nodes"],
        seconds=given["wait_seconds"],
        driver_mode=given["driver_mode"] or "",
    )


def described(report: StageReport) -> dict[str, Any]:
    """Return the report as plain data, with sentences about failures and about stale and unknown results."""
    problems, audited = list_problems(report), describe_accounting(report)
    wrong = report.accounting is not None and report.accounting.outcome is Outcome.FAIL
    return {
        "report": msgspec.to_builtins(report),
        "faults": [*(str(each) for each in problems if each.outcome is Outcome.FAIL), *(audited if wrong else [])],
        "doubts": [
            *(str(each) for each in problems if each.outcome in (Outcome.STALE, Outcome.UNKNOWN)),
            *([] if wrong else audited),
        ],
    }


def written(module: AnsibleModule, report: StageReport, folder: str, formats: Collection[str]) -> list[str]:
    """Write the report to a folder, which is created if necessary; return the paths of the files.

    In check mode, no files are written.
    """
    paths = {Path(folder) / FILE_NAMES[ReportFormat(each)]: ReportFormat(each) for each in sorted(set(formats))}
    if not module.check_mode:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for path, wanted in paths.items():
                path.write_text(write_report(report, wanted), encoding="utf-8")
        except OSError as exc:
            module.fail_json(
                msg=f"{exc.filename or folder} cannot be written: {exc.strerror or exc}; name another folder",
                **described(report),
            )
    return [str(path) for path in paths]
