#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: stage_check
short_description: Check shared nodes by a pod that works with a share
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Has kube-scheduler place a pod on each node that asks for the smallest share, opens its device nodes, reads its
    limit and adds two vectors. What it read, its assignment, the extender's ledger and what the kubelet holds are
    compared. The results are those of the stages C(plugin-check) and C(extender-check).
  - Writes them into the annotation C(accelkit.io/stages) of each node, with the state of the node that they were found
    in. Results of other stages stay.
  - Results that passed are believed for O(max_age) seconds as long as the node's boot, kernel, drivers and cards are
    the same, so that a run right after another one does no work.
  - A node that cannot be checked, because it is full for one, has not failed. What failed is warned of, and returned.
  - The pods are deleted, whatever happens, and what an earlier run left of them is deleted first.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: It says which nodes would be checked, and returns the results that are recorded.
  diff_mode:
    support: none
    details: Results are no settings.
options:
  state:
    description:
      - V(checked) checks nodes and records what was found.
      - V(absent) deletes the annotation from all nodes, and pods that are left.
    type: str
    choices: [checked, absent]
    default: checked
  nodes:
    description:
      - Names of the nodes to check; all must exist. Without it, all with the label C(accelkit.io/share=true).
    type: list
    elements: str
    default: []
  namespace:
    description:
      - Namespace of accelkit, and of the pods.
    type: str
    default: accelkit
  image:
    description:
      - Image of accelkit; required with O(state=checked).
    type: str
  image_pull_secrets:
    description:
      - Names of Secrets for the registry.
    type: list
    elements: str
    default: []
  runtime_class:
    description:
      - RuntimeClass of the pods, where workloads need one to reach the driver; empty for none.
    type: str
    default: ""
  scheduler:
    description:
      - Name of the scheduler that calls the extender; empty for the cluster's own.
    type: str
    default: ""
  extender_url:
    description:
      - URL of the extender; empty for through the API server.
    type: str
    default: ""
  extender_service:
    description:
      - Name of the extender's Service, to which the API server proxies.
    type: str
    default: accelkit-extender
  at_once:
    description:
      - How many pods there may be at one time.
    type: int
    default: 32
  timeout:
    description:
      - How long, in seconds, each pod may take.
    type: int
    default: 120
  max_age:
    description:
      - For how long, in seconds, results that passed are believed; 0 to check all nodes anew.
    type: int
    default: 3600
  warn:
    description:
      - Whether it warns of what failed; false where C(accelkit.kubernetes.stage_report) follows, which tells it.
    type: bool
    default: true
seealso:
  - module: accelkit.kubernetes.memory_check
"""

EXAMPLES = r"""
- name: Check the nodes that are shared
  accelkit.kubernetes.stage_check:
    image: registry.example.org/accelkit/accelkit:0.1.0

- name: Check one node anew
  accelkit.kubernetes.stage_check:
    image: registry.example.org/accelkit/accelkit:0.1.0
    nodes: [node-1]
    max_age: 0

- name: Take the results off all nodes
  accelkit.kubernetes.stage_check:
    state: absent
"""

RETURN = r"""
nodes:
  description: The nodes that were chosen, sorted; with O(state=absent), those that had results.
  returned: success
  type: list
  elements: str
  sample: [node-1, node-2]
checked:
  description: The nodes on which a check ran, or would run in check mode.
  returned: success
  type: list
  elements: str
  sample: [node-1]
stages:
  description: By node and stage, how it ended (V(pass), V(skipped), V(stale), V(unknown) or V(fail)), and why.
  returned: with O(state=checked)
  type: dict
  sample:
    node-1:
      plugin-check: {outcome: pass, evidence: '1 GiB of sim-0 (sim-16g): 1048576 numbers added', seconds: 2.1}
faults:
  description: What failed, one sentence for each node and stage.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: ['node-1 plugin-check: NothingAllocatable: of 16 accelkit.io/memory of node-1 none is allocatable']
doubtful:
  description: What is stale or not known, one sentence for each node and stage.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: []
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
        # Names of Secrets, which Ansible takes for secrets unless it is told.
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
        module.fail_json(msg="at_once and timeout are at least 1, and max_age at least 0")
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
