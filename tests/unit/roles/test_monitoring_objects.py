"""The objects of the role monitoring, as Ansible renders them, with and without the Prometheus operator."""

import json
import re

import pytest
from rendering import ROOT, list_variables, run_play
from support.yaml import parse_yaml, read_yaml

ROLE = ROOT / "roles" / "monitoring"
# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("monitoring_role"), pytest.mark.timeout(300)]
CASES = {
    "operator": (True, {"monitoring_labels": {"release": "prom"}}),
    "bare": (True, {"monitoring_rules": False, "monitoring_dashboards": False, "monitoring_interval": "1m"}),
    "plain": (False, {"accelkit_monitoring": True, "accelkit_namespace": "gpus"}),
    "nothing": (False, {}),
    "asked for nothing": (False, {"accelkit_monitoring": "auto"}),
}


# By whom accelkit's PodMonitor, with the label `release: prom`, is chosen.
SELECTORS = {
    "all": {},
    "null labels": {"matchLabels": None},
    "ours": {"matchLabels": {"release": "prom"}},
    "others": {"matchLabels": {"release": "other"}},
    "more": {"matchLabels": {"release": "prom", "team": "a"}},
    "none": None,
}


@pytest.fixture(scope="module")
def watchers(tmp_path_factory):
    """The names of the Prometheus objects that choose the PodMonitor."""
    folder = tmp_path_factory.mktemp("watchers")
    tasks = read_yaml(ROLE / "tasks/check.yml")
    (task,) = (each for each in tasks if each["name"].startswith("Find the Prometheus objects"))
    found = [
        {"metadata": {"namespace": "m", "name": name}, "spec": {"podMonitorSelector": selector}}
        for name, selector in SELECTORS.items()
    ]
    found.append({"metadata": {"namespace": "m", "name": "unset"}, "spec": {}})
    copy = {"content": "{{ __monitoring_watchers | to_json }}", "dest": str(folder / "found.json")}
    play = {
        "vars_files": list_variables("monitoring"),
        "vars": {
            "monitoring_prometheuses": {"resources": found},
            "monitoring_looked": {"results": [{"resources": [{}]}, {"resources": [{}]}]},
        },
        "tasks": [task, {"ansible.builtin.copy": copy}],
    }
    run_play(folder, play, extra={"monitoring_labels": {"release": "prom"}}, seconds=100)
    return json.loads((folder / "found.json").read_text())


def test_prometheus_is_matched_by_its_pod_monitor_selector(watchers):
    assert watchers == ["m/all", "m/null labels", "m/ours"]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Objects by case, and by kind and name."""
    folder = tmp_path_factory.mktemp("monitoring")
    found = [[{"kind": "CustomResourceDefinition"}], []]
    tasks = []
    for case, (operator, given) in CASES.items():
        looked = {"results": [{"resources": found[not operator]}, {"resources": found[not operator]}]}
        # As apply has it: what braces stand in it goes through a fact.
        fact = {"ansible.builtin.set_fact": {"rendered": "{{ __monitoring_objects }}"}}
        copy = {"ansible.builtin.copy": {"content": "{{ rendered | to_json }}", "dest": str(folder / f"{case}.json")}}
        tasks.append({"vars": {"monitoring_looked": looked, **given}, "block": [fact, copy]})
    for name in ("templates", "files"):
        (folder / name).symlink_to(ROLE / name)
    play = {"vars_files": list_variables("monitoring"), "tasks": tasks}
    run_play(folder, play, seconds=200)
    return {
        case: {
            (each["kind"], each["metadata"]["name"]): each for each in json.loads((folder / f"{case}.json").read_text())
        }
        for case in CASES
    }


BOARDS = {("ConfigMap", f"accelkit-monitoring-{name}") for name in ("cards", "cluster", "pods")}
MONITOR, RULE = ("PodMonitor", "accelkit-monitoring"), ("PrometheusRule", "accelkit-monitoring")


def test_rendered_objects_depend_on_operator_and_settings(rendered):
    assert set(rendered["operator"]) == {MONITOR, RULE, *BOARDS}
    assert set(rendered["bare"]) == {MONITOR}
    assert set(rendered["plain"]) == {("ConfigMap", "accelkit-monitoring"), *BOARDS}
    assert rendered["nothing"] == rendered["asked for nothing"] == {}


def test_objects_have_common_labels_and_labels_for_prometheus(rendered):
    for each in rendered["operator"].values():
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "accelkit"
        assert labels["app.kubernetes.io/component"] == "monitoring"
        assert ("release" in labels) == (each["kind"] != "ConfigMap")
        assert (labels.get("grafana_dashboard") == "1") == (each["kind"] == "ConfigMap")


def test_scraped_ports_exist_in_services():
    templates = [path for role in ("device_plugin", "extender", "kernel_cache") for path in role_templates(role)]
    named = {
        name for path in templates for name in re.findall(r"- name: (metrics|probes)$", path.read_text(), re.MULTILINE)
    }
    assert named == {"metrics", "probes"}


def role_templates(role):
    return (ROOT / "roles" / role / "templates").glob("*.j2")


def test_series_preserve_their_pod_and_namespace_labels(rendered):
    spec = rendered["operator"][MONITOR]["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["accelkit"]}
    assert [each["port"] for each in spec["podMetricsEndpoints"]] == ["metrics", "probes"]
    for each in spec["podMetricsEndpoints"]:
        assert {"action": "labeldrop", "regex": "(namespace|pod|container|endpoint)"} in each["relabelings"]
    assert {each["interval"] for each in rendered["bare"][MONITOR]["spec"]["podMetricsEndpoints"]} == {"1m"}


def test_rules_and_dashboards_are_rendered_without_changes(rendered):
    rules = (ROLE / "files/rules.yml").read_text()
    assert "{{ $labels.node }}" in rules
    assert rendered["operator"][RULE]["spec"] == parse_yaml(rules)
    plain = rendered["plain"]["ConfigMap", "accelkit-monitoring"]["data"]
    assert parse_yaml(plain["rules.yml"]) == parse_yaml(rules)
    for path in (ROLE / "files/dashboards").iterdir():
        name = f"accelkit-monitoring-{path.stem.removeprefix('accelkit-')}"
        data = rendered["operator"]["ConfigMap", name]["data"]
        assert json.loads(data[path.name]) == json.loads(path.read_text())
        assert "{{" in data[path.name] or "legendFormat" not in data[path.name]


def test_scrape_config_without_operator_selects_same_pods(rendered):
    (job,) = parse_yaml(rendered["plain"]["ConfigMap", "accelkit-monitoring"]["data"]["scrape.yml"])["scrape_configs"]
    assert job["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": ["gpus"]}}]
    targets = {each.get("target_label") for each in job["relabel_configs"]}
    assert targets == {None, "job", "node", "scraped_component"}


def relabel(steps, labels):
    """What becomes of the labels of a series, or None where it is dropped, as Prometheus has it."""
    labels = dict(labels)
    for each in steps:
        step = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): value for key, value in each.items()}
        pattern, action = re.compile(step.get("regex", "(.*)")), step.get("action", "replace")
        if action == "labeldrop":
            labels = {key: value for key, value in labels.items() if not pattern.fullmatch(key)}
            continue
        found = pattern.fullmatch(";".join(labels.get(name, "") for name in step.get("source_labels", ())))
        if found and action == "drop":
            return None
        if found and action == "replace":
            labels[step["target_label"]] = found.expand(step.get("replacement", "$1").replace("$", "\\"))
    return {key: value for key, value in labels.items() if not key.startswith("__meta") and value}


def scrape(endpoint, component, series, controller="ReplicaSet"):
    """The labels that are stored of a series of a pod of accelkit on the node n1."""
    meta = {
        f"__meta_kubernetes_pod_{key}": value
        for key, value in {
            "label_app_kubernetes_io_name": "its-name",
            "label_app_kubernetes_io_component": component,
            "label_app_kubernetes_io_part_of": "accelkit",
            "container_port_name": "metrics",
            "controller_kind": controller,
            "node_name": "n1",
        }.items()
    }
    steps = endpoint.get("relabelings") or [
        each for each in endpoint["relabel_configs"] if each.get("action") != "keep"
    ]
    target = relabel(steps, {"job": "j", "instance": "here:1", **meta})
    assert (endpoint.get("honorLabels"), endpoint.get("honor_labels")) in {(False, None), (None, False)}
    told = {f"exported_{key}" if key in target else key: value for key, value in series.items()}
    return relabel(endpoint.get("metricRelabelings") or endpoint["metric_relabel_configs"], {**target, **told})


@pytest.fixture(scope="module", params=["operator", "plain"])
def endpoint(request, rendered):
    if request.param == "operator":
        return rendered["operator"][MONITOR]["spec"]["podMetricsEndpoints"][0]
    return parse_yaml(rendered["plain"]["ConfigMap", "accelkit-monitoring"]["data"]["scrape.yml"])["scrape_configs"][0]


def test_agent_series_cannot_set_node_job_or_instance(endpoint):
    lie = {"node": "n2", "job": "accelkit-extender", "instance": "there:1", "scraped_component": "extender"}
    lie |= {"exported_node": "n3", "exported_exported_node": "n4", "card": "c", "namespace": "a", "pod": "p"}
    stored = {"job": "its-name", "instance": "here:1", "node": "n1", "card": "c", "namespace": "a", "pod": "p"}
    for component in ("node-agent", "kernel-caches", "remediation", ""):
        series = scrape(endpoint, component, {"__name__": "accelerator_health_info", **lie})
        assert series == {"__name__": "accelerator_health_info", **stored}
        for name in ("accelerator_stage_ready", "accelkit_pods", "accelkit_extender_errors_total"):
            assert scrape(endpoint, component, {"__name__": name, **lie}) is None


def test_cluster_wide_metrics_are_accepted_only_from_their_service(endpoint):
    of = {
        "accelkit_remediation_breaker_open": {"remediation"},
        "accelkit_remediation_held_nodes": {"remediation"},
        "accelkit_kernel_caches": {"kernel-caches"},
        "accelkit_kernel_caches_on_node": {"kernel-caches", "node-agent", "remediation", "extender", ""},
        "accelkit_certificate_expiry_timestamp_seconds": {"extender"},
    }
    for name, tellers in of.items():
        for component in ("node-agent", "kernel-caches", "remediation", "extender", ""):
            stored = scrape(endpoint, component, {"__name__": name})
            assert (stored is not None) is (component in tellers), (name, component)
    # What runs on each node has the component of the controller.
    assert scrape(endpoint, "kernel-caches", {"__name__": "accelkit_kernel_caches"}, controller="DaemonSet") is None
    assert scrape(endpoint, "kernel-caches", {"__name__": "accelkit_kernel_caches_on_node"}, controller="DaemonSet")


def test_mirror_pods_are_not_scraped(endpoint):
    steps = endpoint.get("relabelings") or endpoint["relabel_configs"]
    mirrored = {"__meta_kubernetes_pod_annotationpresent_kubernetes_io_config_mirror": "true"}
    ours = {f"__meta_kubernetes_pod_label_app_kubernetes_io_{key}": "extender" for key in ("name", "component")}
    shown = [each for each in steps if each.get("action") != "keep"]
    assert relabel(shown, ours)["scraped_component"] == "extender"
    assert relabel(shown, ours | mirrored) is None


def test_extender_series_may_set_node_but_not_job(endpoint):
    series = scrape(endpoint, "extender", {"__name__": "accelerator_stage_ready", "node": "n2", "job": "x"})
    assert series == {"__name__": "accelerator_stage_ready", "job": "its-name", "instance": "here:1", "node": "n2"}
    assert scrape(endpoint, "extender", {"__name__": "accelkit_leader"})["node"] == "n1"
