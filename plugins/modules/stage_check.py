#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: stage_check
short_description: Check shared nodes with pods that use a share of a card
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Runs a pod on each node, and lets kube-scheduler schedule the pod. The pod requests the smallest share, opens its
    device nodes, reads its limit and adds two vectors.
  - Compares the pod's results, its assignment, the extender's ledger and the kubelet's allocation. These comparisons
    determine the results of the stages C(plugin-check) and C(extender-check).
  - Writes the results to the annotation C(accelkit.io/stages) of each node, together with the state of the node. The
    results of other stages are preserved.
  - Passed results are valid for O(max_age) seconds, unless the boot, kernel, drivers or cards of the node change.
    Therefore, if you run the module again immediately, it does not check the nodes again.
  - If a node cannot be checked, for example because it is full, the module does not treat this as a failure. The module
    warns about failures, and returns them.
  - The module always deletes its pods. Before it starts, it deletes pods that remain from an earlier run.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: The module returns the nodes that it would check, and the recorded results.
  diff_mode:
    support: none
    details: The module records results and does not change settings.
options:
  state:
    description:
      - V(checked) checks the nodes and records the results.
      - V(absent) removes the annotation from all nodes, and deletes remaining pods.
    type: str
    choices: [checked, absent]
    default: checked
  nodes:
    description:
      - Names of the nodes to check. All of them must exist.
      - By default, the module checks all nodes with the label C(accelkit.io/share=true).
    type: list
    elements: str
    default: []
  namespace:
    description:
      - Namespace of accelkit and of the pods.
    type: str
    default: accelkit
  image:
    description:
      - The accelkit image. Required with O(state=checked).
    type: str
  image_pull_secrets:
    description:
      - Names of Secrets that contain credentials for the registry.
    type: list
    elements: str
    default: []
  runtime_class:
    description:
      - RuntimeClass of the pods, if workloads need a RuntimeClass to access the driver. If empty, no RuntimeClass is
        set.
    type: str
    default: ""
  scheduler:
    description:
      - Name of the scheduler that calls the extender. If empty, the pods use the cluster's default scheduler.
    type: str
    default: ""
  extender_url:
    description:
      - URL of the extender. If it is empty, the module connects through the API server.
    type: str
    default: ""
  extender_service:
    description:
      - Name of the extender's Service, which the module accesses through the API server.
    type: str
    default: accelkit-extender
  at_once:
    description:
      - Maximum number of pods that run at the same time.
    type: int
    default: 32
  timeout:
    description:
      - Timeout for each pod, in seconds.
    type: int
    default: 120
  max_age:
    description:
      - Time in seconds for which passed results are valid. With V(0), the module checks all nodes again.
    type: int
    default: 3600
  warn:
    description:
      - Whether to warn about failures. Set it to V(false) if you run M(accelkit.kubernetes.stage_report) later, which
        also reports failures.
    type: bool
    default: true
seealso:
  - module: accelkit.kubernetes.memory_check
"""

EXAMPLES = r"""
- name: Check all shared nodes
  accelkit.kubernetes.stage_check:
    image: registry.example.org/accelkit/accelkit:0.1.0

- name: Check one node again
  accelkit.kubernetes.stage_check:
    image: registry.example.org/accelkit/accelkit:0.1.0
    nodes: [node-1]
    max_age: 0

- name: Delete the results from all nodes
  accelkit.kubernetes.stage_check:
    state: absent
"""

RETURN = r"""
nodes:
  description: Sorted names of the selected nodes. With O(state=absent), names of the nodes that had results.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
checked:
  description: Names of the nodes on which a check ran, or would run in check mode.
  returned: success
  type: list
  elements: str
  sample: [node-1]
stages:
  description: The outcome by node and stage (V(pass), V(skipped), V(stale), V(unknown) or V(fail)), with the reason.
  returned: with O(state=checked)
  type: dict
  sample:
    node-1:
      plugin-check: {outcome: pass, evidence: '1 GiB of sim-0 (sim-16g): 1048576 numbers added', seconds: 2.1}
faults:
  description: The failures, with one sentence for each node and stage.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: ['node-1 plugin-check: NothingAllocatable: none of the 16 accelkit.io/memory of node-1 are allocatable']
doubtful:
  description: Stale and unknown results, with one sentence for each node and stage.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: []
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.enablement.work.node_stages import remove_stages, run_stages
    from accelkit.enablement.work.pods import CheckPods
    from accelkit.enablement.work.sides import build_ledger


def main():
    module = api_module(
        constraints={"required_if": [("state", "checked", ("image",))]},
        state={"type": "str", "choices": ["checked", "absent"], "default": "checked"},
        nodes={"type": "list", "elements": "str", "default": []},
        namespace={"type": "str", "default": "accelkit"},
        image={"type": "str"},
        # The option contains only names of Secrets. If no_log were not set, Ansible would warn that it may contain
        # secrets.
        image_pull_secrets={"type": "list", "elements": "str", "default": [], "no_log": False},
        runtime_class={"type": "str", "default": ""},
        scheduler={"type": "str", "default": ""},
        extender_url={"type": "str", "default": ""},
        extender_service={"type": "str", "default": "accelkit-extender"},
        at_once={"type": "int", "default": 32},
        timeout={"type": "int", "default": 120},
        max_age={"type": "int", "default": 3600},
        warn={"type": "bool", "default": True},
    )
    given = module.params
    if given["at_once"] < 1 or given["timeout"] < 1 or given["max_age"] < 0:
        module.fail_json(msg="at_once and timeout must be at least 1, and max_age at least 0")
    if given["state"] == "absent":
        run = call(module, lambda api: remove_stages(api, given["namespace"], check=module.check_mode))
        if run.left:
            module.warn(run.left)
        module.exit_json(changed=bool(run.written or run.pods), nodes=list(run.written), checked=[])
    run = call(module, lambda api: _check(api, module))
    failed, doubtful = _describe(run.results, ("fail",)), _describe(run.results, ("stale", "unknown"))
    if given["warn"] and not module.check_mode:
        for sentence in failed:
            module.warn(f"node {sentence}")
    for node, problem in sorted(run.problems.items()):
        module.warn(f"the results of node {node} are not recorded: {problem}")
    module.exit_json(
        changed=bool(run.written),
        nodes=list(run.results),
        checked=list(run.worked),
        stages=msgspec.to_builtins(run.results),
        faults=failed,
        doubtful=doubtful,
    )


async def _check(api, module):
    given = module.params
    pods = CheckPods(
        given["namespace"],
        given["image"],
        tuple(given["image_pull_secrets"]),
        given["runtime_class"],
        given["scheduler"],
        given["timeout"],
    )
    ledger = build_ledger(api, given["namespace"], url=given["extender_url"], service=given["extender_service"])
    return await run_stages(
        api,
        given["nodes"],
        pods,
        ledger=ledger,
        max_age_seconds=given["max_age"],
        at_once=given["at_once"],
        check=module.check_mode,
    )


def _describe(results, outcomes):
    return [
        f"{node} {stage}: {result.reason}: {result.evidence}; {result.next_action}"
        for node, stages in results.items()
        for stage, result in stages.items()
        if result.outcome in outcomes
    ]


if __name__ == "__main__":
    main()
