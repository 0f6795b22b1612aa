#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: example_manifests
short_description: Generate and deploy GKM's example manifests
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Generates the manifests of a single GKM example or of a predefined set of examples, with the same names as in GKM.
  - Writes the manifests to files, or applies them to a cluster in which GKM is installed. The module can also delete
    the files or the objects.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: For existing objects, the module sends dry-run requests to the API server.
  diff_mode:
    support: full
options:
  state:
    description:
      - V(generated) writes the files, and V(absent) deletes the files.
      - V(deployed) applies the objects.
      - V(undeployed) deletes the objects, and waits until they no longer exist.
    type: str
    choices: [generated, absent, deployed, undeployed]
    default: generated
  set:
    description:
      - Predefined set of examples. V(kind) contains four examples, and each of the other sets contains two examples.
      - Mutually exclusive with O(access), O(scope), O(gpu) and O(cosign). If none of these options is set,
        O(state=absent) deletes the files of all examples.
    type: str
    choices: [kind, nfd-cuda, nfd-rocm]
  access:
    description: V(rox) creates three Pods that mount the cache, and V(rwo) creates three DaemonSets.
    type: str
    choices: [rox, rwo]
  scope:
    description:
      - V(ns) or V(namespace) creates a GKMCache.
      - V(cl) or V(cluster) creates a ClusterGKMCache and two namespaces.
    type: str
    choices: [namespace, ns, cluster, cl]
  gpu:
    description: Software stack of the cards for which the cache was built.
    type: str
    choices: [cuda, rocm]
  cosign:
    description: Version of cosign that determines the format of the image's signature.
    type: str
    choices: [v2, v3]
  environment:
    description:
      - V(kind) adds an init container that sets permissions, and a toleration.
      - V(nfd) adds an affinity for nodes that Node Feature Discovery labeled, and a toleration.
    type: str
    choices: [none, kind, nfd]
    default: none
  output:
    description:
      - Output folder for the files.
      - Required with O(state=generated) and O(state=absent). With O(state=deployed), the module also writes the files
        to this folder.
    type: path
  affinity:
    description:
      - Path of a file that contains an affinity for the cache and the workloads, as YAML, JSON or a JSON patch.
      - The default is the value of E(CUSTOM_AFFINITY).
    type: path
  toleration:
    description:
      - Path of a file that contains one or more tolerations for the cache and the workloads.
      - The default is the value of E(CUSTOM_TOLERATION).
    type: path
  node_selector_1:
    description:
      - Path of a file that contains the node selector of the first workload.
      - The default is the value of E(CUSTOM_NODE_SELECTOR_1).
    type: path
  node_selector_2:
    description:
      - Path of a file that contains the node selector of the second workload.
      - The default is the value of E(CUSTOM_NODE_SELECTOR_2).
    type: path
  node_selector_3:
    description:
      - Path of a file that contains the node selector of the third workload.
      - The default is the value of E(CUSTOM_NODE_SELECTOR_3).
    type: path
  timeout:
    description: Timeout for applying or deleting all objects, in seconds.
    type: float
    default: 180
"""

EXAMPLES = r"""
- name: Generate the files of one example
  accelkit.kubernetes.example_manifests:
    access: rwo
    scope: ns
    gpu: rocm
    cosign: v3
    environment: kind
    output: output

- name: Deploy the examples for NVIDIA cards
  accelkit.kubernetes.example_manifests:
    state: deployed
    set: nfd-cuda
    kubeconfig: ~/.kube/config

- name: Delete the examples from the cluster
  accelkit.kubernetes.example_manifests:
    state: undeployed
    set: nfd-cuda
    kubeconfig: ~/.kube/config

- name: Delete the files of all examples
  accelkit.kubernetes.example_manifests:
    state: absent
    output: output
"""

RETURN = r"""
files:
  description: Paths of the written files. With O(state=absent), paths of the deleted files.
  returned: success
  type: list
  elements: str
  sample: [output/rwo-ns-rocm-v3-kind.yaml]
objects:
  description: The result for each object.
  returned: when O(state=deployed) or O(state=undeployed)
  type: list
  elements: dict
  contains:
    object:
      description: Kind, namespace and name of the object.
      type: str
      sample: GKMCache gkm-test-ns-1-rwo-ns-rocm-v3/gkm-test-obj-rwo-ns-rocm-v3
    outcome:
      description: V(created), V(changed), V(unchanged), V(deleted) or V(absent).
      type: str
      sample: created
"""

from contextlib import suppress
from pathlib import Path

from ansible.module_utils.basic import env_fallback
from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.errors import AccelkitError
    from accelkit.examples.custom import NO_CUSTOM, read_custom
    from accelkit.examples.deployment import deploy, undeploy
    from accelkit.examples.example import (
        ALL_EXAMPLES,
        SCOPE_WORDS,
        SETS,
        Access,
        CosignVersion,
        Environment,
        Example,
        Gpu,
    )
    from accelkit.examples.files import clean, find_example_files, render, write_example
    from accelkit.examples.objects import build_objects

CHOICE = ["set", "access"]
RULES = {
    "required_together": [("access", "scope", "gpu", "cosign")],
    "mutually_exclusive": [CHOICE],
    "required_if": [
        ("state", "generated", CHOICE, True),
        ("state", "deployed", CHOICE, True),
        ("state", "undeployed", CHOICE, True),
        ("state", "generated", ["output"]),
        ("state", "absent", ["output"]),
    ],
}
BEFORE = {"created": "absent", "changed": "different", "absent": "absent"}
AFTER = {"deleted": "absent", "absent": "absent"}


def choose_examples(given):
    if given["set"]:
        return SETS[given["set"]]
    if not given["access"]:
        return ALL_EXAMPLES
    return (
        Example(
            Access(given["access"]),
            SCOPE_WORDS[given["scope"]],
            Gpu(given["gpu"]),
            CosignVersion(given["cosign"]),
            Environment(given["environment"]),
        ),
    )


def read_custom_files(given):
    names = ("affinity", "toleration", "node_selector_1", "node_selector_2", "node_selector_3")
    affinity, toleration, *selectors = (Path(given[name]) if given[name] else None for name in names)
    return read_custom(affinity, toleration, tuple(selectors))


def write_examples(made, folder, *, check):
    """Write the files, and return the paths of all files and the diffs of the changed files."""
    paths, diffs = [], []
    for example, objects in made:
        path, text = folder / example.file_name, render(objects)
        before = path.read_text("utf-8") if path.is_file() else ""
        if before != text:
            diffs.append({"before": before, "after": text, "before_header": str(path), "after_header": str(path)})
            if not check:
                write_example(text, example, folder)
        paths.append(str(path))
    return paths, diffs


def delete_examples(examples, folder, *, check):
    """Delete the files, and return the paths and diffs of the deleted files."""
    paths = find_example_files(folder, examples)
    diffs = [{"before": path.read_text("utf-8"), "after": "", "before_header": str(path)} for path in paths]
    if not check:
        clean(folder, examples)
    return [str(path) for path in paths], diffs


def change_cluster(module, objects):
    """Deploy or undeploy the objects, and return the change of each object and a diff."""
    act = deploy if module.params["state"] == "deployed" else undeploy
    seconds = module.params["timeout"]
    changes = call(module, lambda api: act(api, objects, seconds=seconds, dry_run=module.check_mode))
    diff = {
        "before": {each.object: BEFORE.get(each.outcome, "present") for each in changes},
        "after": {each.object: AFTER.get(each.outcome, "present") for each in changes},
    }
    return changes, diff


def run(module):
    given, check = module.params, module.check_mode
    folder = Path(given["output"]) if given["output"] else None
    if given["state"] == "absent":
        paths, diffs = delete_examples(choose_examples(given), folder, check=check)
        return {"changed": bool(paths), "files": paths, "diff": diffs}
    own = NO_CUSTOM if given["state"] == "undeployed" else read_custom_files(given)
    made = [(each, build_objects(each, own)) for each in choose_examples(given)]
    paths, diffs = [], []
    if folder and given["state"] != "undeployed":
        paths, diffs = write_examples(made, folder, check=check)
    if given["state"] == "generated":
        return {"changed": bool(diffs), "files": paths, "diff": diffs}
    changes, diff = change_cluster(module, [item for _place, objects in made for item in objects])
    return {
        "changed": bool(diffs) or any(each.changed for each in changes),
        "files": paths,
        "objects": [{"object": each.object, "outcome": str(each.outcome)} for each in changes],
        "diff": [*diffs, diff],
    }


def main():
    module = api_module(
        constraints=RULES,
        state={
            "type": "str",
            "choices": ["generated", "absent", "deployed", "undeployed"],
            "default": "generated",
        },
        set={"type": "str", "choices": ["kind", "nfd-cuda", "nfd-rocm"]},
        access={"type": "str", "choices": ["rox", "rwo"]},
        scope={"type": "str", "choices": ["namespace", "ns", "cluster", "cl"]},
        gpu={"type": "str", "choices": ["cuda", "rocm"]},
        cosign={"type": "str", "choices": ["v2", "v3"]},
        environment={"type": "str", "choices": ["none", "kind", "nfd"], "default": "none"},
        output={"type": "path"},
        affinity={"type": "path", "fallback": (env_fallback, ["CUSTOM_AFFINITY"])},
        toleration={"type": "path", "fallback": (env_fallback, ["CUSTOM_TOLERATION"])},
        node_selector_1={"type": "path", "fallback": (env_fallback, ["CUSTOM_NODE_SELECTOR_1"])},
        node_selector_2={"type": "path", "fallback": (env_fallback, ["CUSTOM_NODE_SELECTOR_2"])},
        node_selector_3={"type": "path", "fallback": (env_fallback, ["CUSTOM_NODE_SELECTOR_3"])},
        timeout={"type": "float", "default": 180},
    )
    try:
        module.exit_json(**run(module))
    except (AccelkitError, OSError) as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
