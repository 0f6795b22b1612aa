"""The role's objects, as Ansible renders them."""

import pytest
from jinja2.nativetypes import NativeEnvironment
from rendering import ROOT, evaluate, render, run_play
from support.yaml import parse_yaml_documents, read_yaml

ROLE = ROOT / "roles" / "partitioning"
CASES = {
    "bare": {},
    "full": {
        "accelkit_partitioning": {
            "hard": {"enabled": True},
            "soft": {"enabled": True, "high": "cards-first", "low_value": -5},
            "quotas": [
                {"namespace": "team-a", "hard": {"accelkit.io/memory": 64, "requests.nvidia.com/gpu": 2, "pods": 9}},
                {
                    "namespace": "team-b",
                    "name": "mine",
                    "hard": {"accelkit.deviceclass.resource.k8s.io/devices": 1},
                },
            ],
            "roles": {"training": ["a"], "inference": ["b"]},
            "pools": {"big": ["a"]},
        },
        "accelkit_namespace": "cards",
    },
    "keys": {"partitioning_hard": {"enabled": True, "resources": ["x.io/y", "accelkit.io/memory"]}},
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """All objects by case, kind and name; rendered by one run."""
    found = render(tmp_path_factory.mktemp("partitioning"), "partitioning", "objects.yaml.j2", CASES)
    return {
        name: {(each["kind"], each["metadata"]["name"]): each for each in objects} for name, objects in found.items()
    }


def snippets(objects):
    data = objects["ConfigMap", "accelkit-partitioning"]["data"] or {}
    return {name: parse_yaml_documents(text)[0] for name, text in data.items()}


def test_all_objects_have_common_labels(rendered):
    for objects in rendered.values():
        for each in objects.values():
            labels = each["metadata"]["labels"]
            assert labels["app.kubernetes.io/component"] == "partitioning"
            assert labels["app.kubernetes.io/part-of"] == "accelkit"
            assert labels["app.kubernetes.io/managed-by"] == "ansible"


def test_only_empty_config_map_is_rendered_by_default(rendered):
    assert list(rendered["bare"]) == [("ConfigMap", "accelkit-partitioning")]
    assert snippets(rendered["bare"]) == {}


def test_priority_classes_are_above_and_below_default_priority(rendered):
    high, low = (rendered["full"]["PriorityClass", name] for name in ("cards-first", "accelkit-low"))
    assert (high["value"], low["value"]) == (1000, -5)
    assert (high["preemptionPolicy"], low["preemptionPolicy"]) == ("PreemptLowerPriority", "Never")
    assert high["globalDefault"] is low["globalDefault"] is False


def test_quotas_limit_requests_of_extended_resources(rendered):
    quota = rendered["full"]["ResourceQuota", "accelkit-cards"]
    assert quota["metadata"]["namespace"] == "team-a"
    assert quota["spec"]["hard"] == {
        "requests.accelkit.io/memory": "64",
        "requests.nvidia.com/gpu": "2",
        "pods": "9",
    }
    other = rendered["full"]["ResourceQuota", "mine"]
    assert other["spec"]["hard"] == {"accelkit.deviceclass.resource.k8s.io/devices": "1"}


def test_config_map_contains_tolerations_affinity_and_priority_snippets(rendered):
    found = snippets(rendered["full"])
    assert set(found) == {
        "tolerations.yaml",
        "affinity-role-training.yaml",
        "affinity-role-inference.yaml",
        "affinity-pool-big.yaml",
        "priority-cards-first.yaml",
        "priority-accelkit-low.yaml",
    }
    assert found["tolerations.yaml"] == {
        "tolerations": [{"key": "accelkit.io/memory", "operator": "Exists", "effect": "NoSchedule"}]
    }
    affinity = found["affinity-role-training.yaml"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "accelkit.io/role", "operator": "In", "values": ["training"]}]}
    assert rendered["full"]["ConfigMap", "accelkit-partitioning"]["metadata"]["namespace"] == "cards"
    keys = [each["key"] for each in snippets(rendered["keys"])["tolerations.yaml"]["tolerations"]]
    assert keys == ["x.io/y", "accelkit.io/memory"]


def test_role_uses_no_taints_that_evict_pods():
    texts = [path.read_text() for path in ROLE.rglob("*") if path.is_file()]
    assert not any("NoExecute" in text for text in texts)


def refusals():
    """The assertions of the role's preflight, by what they say."""
    tasks = read_yaml(ROLE / "tasks/preflight.yml")
    return [each for each in tasks if "ansible.builtin.assert" in each]


def there(kind, name, **labels):
    return {"resources": [{"kind": kind, "metadata": {"name": name, "labels": labels}}]}


OURS = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "partitioning"}
ABSENT = {"resources": []}
# By name: the namespaces and objects that were found, and what is told; empty where it passes.
FOUND = {
    "new": ([], [ABSENT], ""),
    "ours": ([there("Namespace", "a")], [there("PriorityClass", "accelkit-high", **OURS)], ""),
    "theirs": ([], [there("PriorityClass", "accelkit-high"), ABSENT], "ObjectOfAnother: PriorityClass accelkit-high"),
    "bare": ([], [{"resources": [{"kind": "ResourceQuota", "metadata": {"name": "q"}}]}], "ResourceQuota q"),
    "no namespace": (
        [{**ABSENT, "partitioning_quota": {"namespace": "gone"}}, there("Namespace", "a")],
        [],
        "the namespace gone does not exist",
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the preflight says in each case; run by one run."""
    folder = tmp_path_factory.mktemp("refusals")
    tasks = []
    for name, (namespaces, objects, _) in FOUND.items():
        given = {
            "partitioning_namespaces": {"results": namespaces},
            "partitioning_found": {"results": objects},
            "partitioning_said": "",
        }
        tasks.append({"ansible.builtin.set_fact": given})
        for each in refusals():
            tasks.append({**each, "register": "answer", "ignore_errors": True})
            said = "{{ partitioning_said ~ (answer.msg | default('') if answer is failed else '') }}"
            tasks.append({"ansible.builtin.set_fact": {"partitioning_said": said}})
        content = "{{ partitioning_said }}"
        tasks.append({"ansible.builtin.copy": {"content": content, "dest": str(folder / f"{name}.txt")}})
    run_play(folder, {"tasks": tasks}, seconds=200)
    return {name: (folder / f"{name}.txt").read_text() for name in FOUND}


@pytest.mark.parametrize("name", FOUND)
def test_foreign_objects_and_missing_namespaces_are_rejected(told, name):
    expected = FOUND[name][2]
    assert expected in told[name] if expected else told[name] == ""


PLACES = read_yaml(ROOT / "playbooks/vars/cluster.yml")["__accelkit_places"]
ROLES = {
    "extender": "extender",
    "cache_controller": "kernel_cache",
    "remediation": "remediation",
    "renewal": "certificates",
    "second_scheduler": "second_scheduler",
}


@pytest.mark.parametrize(("place", "role"), ROLES.items())
def test_placement_of_own_pods_matches_role_defaults(place, role):
    defaults = read_yaml(ROOT / "roles" / role / "defaults/main.yml")
    spec, environment = PLACES[place]["spec"], NativeEnvironment()
    assert PLACES[place]["setting"] == f"{role}_tolerations"
    given = {"__accelkit_tolerations": read_yaml(ROOT / "playbooks/vars/cluster.yml")["__accelkit_tolerations"]}
    for key, variable in (("tolerations", "tolerations"), ("nodeSelector", "node_selector"), ("affinity", "affinity")):
        name = f"{role}_{variable}"
        if key in spec:
            assert environment.from_string(spec[key]).render(given) == defaults[name]
            assert environment.from_string(spec[key]).render({**given, name: ["own"]}) == ["own"]
        else:
            assert name not in defaults
    assert set(PLACES) == set(ROLES)


@pytest.mark.parametrize("playbook", ["preflight", "site"])
def test_playbooks_pass_own_pods_to_partitioning_role(playbook):
    tasks = [task for play in read_yaml(ROOT / f"playbooks/{playbook}.yml") for task in play.get("tasks", ())]
    [task] = [
        each
        for each in tasks
        if each.get("ansible.builtin.include_role", {}).get("name") == "accelkit.kubernetes.partitioning"
        and each["ansible.builtin.include_role"].get("tasks_from") != "remove"
    ]
    assert task["vars"] == {"partitioning_own_pods": "{{ __accelkit_own_pods }}"}


def test_own_pods_contain_only_enabled_services(tmp_path):
    everything = {"accelkit_kernel_caches": True, "accelkit_remediation": {"mode": "dry-run"}}
    wanted = {
        "bare": ({}, ["the extender", "the renewal of certificates"]),
        "host": ({"extender_expose": "host"}, ["the extender"]),
        "all": (
            {**everything, "accelkit_mode": "second-scheduler"},
            [
                *("the extender", "the cache controller", "remediation", "the renewal of certificates"),
                "the second scheduler",
            ],
        ),
    }
    cases = {name: given for name, (given, _) in wanted.items()}
    found = evaluate(tmp_path, "__accelkit_own_pods", cases, files=[str(ROOT / "playbooks/vars/cluster.yml")])
    for name, (_, expected) in wanted.items():
        assert [each["name"] for each in found[name]] == expected
        assert found[name][0]["spec"]["tolerations"][0]["key"] == "node-role.kubernetes.io/control-plane"
