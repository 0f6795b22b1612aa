import json
import re
from pathlib import Path

import click
import msgspec
import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined, meta
from jinja2.nativetypes import NativeEnvironment
from support.yaml import parse_yaml, parse_yaml_documents, read_yaml

from accelkit.cli import main
from accelkit.inspection.read_port import INSPECTOR, PORT_NAME, name_read_port
from accelkit.install.certificates.secrets import AUTHORITY, CLIENT, SERVER
from accelkit.install.guarded_keys import list_guarded_keys
from accelkit.model.keys import FENCED_AT_ANNOTATION, FREED_AT_ANNOTATION, POD_GROUP_GATE
from accelkit.model.managed_resources import MANAGED_RESOURCES_NAME
from accelkit.node.discovery.libraries import DRIVER_ROOTS
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import list_dialect_names, load_dialect

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
VERSION = "1.2.3"
MANIFEST_ROLES = {"extender": "accelkit-extender", "device_plugin": "accelkit-node-agent"}


class Defaults:
    """A role's defaults as Ansible renders them where an inventory sets these variables."""

    def __init__(self, role, **inventory):
        self._raw = read_yaml(ROOT / "roles" / role / "defaults" / "main.yml")
        self._inventory = inventory
        self._environment = NativeEnvironment()
        self._environment.filters["accelkit.kubernetes.dialect"] = describe_dialect
        self._environment.filters["flatten"] = lambda lists: [each for found in lists for each in found]
        self._environment.globals["lookup"] = look_up

    def read(self):
        return {name: self[name] for name in {*self._raw, *self._inventory}}

    def __getitem__(self, name):
        return self._inventory[name] if name in self._inventory else self.render(self._raw[name])

    def render(self, value):
        if isinstance(value, dict):
            return {key: self.render(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.render(each) for each in value]
        if not isinstance(value, str) or "{{" not in value:
            return value
        names = meta.find_undeclared_variables(self._environment.parse(value))
        known = {name: self[name] for name in names if name in self._raw or name in self._inventory}
        return self._environment.from_string(value).render(known)


def describe_dialect(name):
    found = load_dialect(name)
    return {
        "plugin_writes": found.plugin_writes,
        "name": found.name,
        "advertised": found.advertised,
        "resources": list(found.resources.requestable),
        "guarded": list(found.resources.with_devices),
        "log_folder": found.logs.folder,
    }


def look_up(plugin, *arguments):
    return {"accelkit.kubernetes.collection_version": VERSION, "ansible.builtin.env": str(arguments)}[plugin]


def objects(role, **changed):
    """The objects of a role by kind; of several policies the last."""
    return {each["kind"]: each for each in [*policies(role, **changed), *documents(role, **changed)]}


def policies(role, **changed):
    return [each for each in documents(role, "policies.yaml.j2", **changed) if each]


def documents(role, template="objects.yaml.j2", **changed):
    home = ROOT / "roles" / role
    environment = Environment(  # noqa: S701 - renders YAML, where HTML escapes would be wrong
        loader=FileSystemLoader(home / "templates"), undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["to_json"] = json.dumps
    environment.filters["bool"] = bool
    environment.filters["accelkit.kubernetes.dialect"] = lambda name: msgspec.structs.asdict(load_dialect(name))
    environment.filters["combine"] = lambda one, other: {**one, **other}
    environment.globals["lookup"] = look_up

    def expanded(value):
        if isinstance(value, dict):
            return {key: expanded(each) for key, each in value.items()}
        if isinstance(value, list):
            return [expanded(each) for each in value]
        return environment.from_string(value).render(variables) if isinstance(value, str) else value

    variables = Defaults(role, **changed).read()
    own = read_yaml(home / "vars" / "main.yml")
    for name in ("labels", "root", "mounts", "own_driver", "other_driver"):
        variables[f"__{role}_{name}"] = expanded(own.get(f"__{role}_{name}"))
    variables[f"__{role}_admission"] = variables.pop("admission", True)
    variables[f"__{role}_guarded"] = msgspec.to_builtins(list_guarded_keys())
    if role == "device_plugin":
        variables["__device_plugin_deep_read_only"] = variables.pop("deep_read_only", True)
        variables["__device_plugin_corrections"] = variables["device_plugin_corrections"]
        variables["__device_plugin_pod_annotations"] = ["accelkit.io/assignment"]
        variables["__device_plugin_managed_resources"] = MANAGED_RESOURCES_NAME
    if role == "remediation":
        variables["__remediation_job_template"] = variables.pop("job_template", {})
    if role == "extender":
        variables["__extender_resources"] = ["accelkit.io/memory"]
        variables["__extender_wake"] = variables["extender_wake"] and variables["__extender_admission"]
        variables["__extender_wake_annotation"] = own["__extender_wake_annotation"]
        variables["__extender_pod_groups"] = variables["extender_pod_groups"] and variables["__extender_admission"]
        variables["__extender_gate"] = own["__extender_gate"]
        behind_service = variables["extender_expose"] == "service"
        variables["__extender_fence"] = behind_service and variables["__extender_admission"]
        variables["__extender_fence_annotation"] = own["__extender_fence_annotation"]
        variables["__extender_inspector"] = own["__extender_inspector"]
    text = environment.get_template(template).render(variables)
    return parse_yaml_documents(text)


def container(role, **changed):
    kind = {"extender": "Deployment", "device_plugin": "DaemonSet"}[role]
    spec = objects(role, **changed)[kind]["spec"]["template"]["spec"]
    return spec["containers"][0], spec


def test_collection_version_is_written_only_in_galaxy_yml():
    version = read_yaml(ROOT / "galaxy.yml")["version"]
    files = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert [str(path) for path in files if re.search(rf"\b{re.escape(version)}\b", path.read_text())] == []


@pytest.mark.parametrize("role", MANIFEST_ROLES)
def test_image_and_labels_contain_collection_version(role):
    found, _ = container(role)
    assert found["image"] == f"accelkit.io/accelkit:{VERSION}"
    assert {each["metadata"]["labels"]["app.kubernetes.io/version"] for each in objects(role).values()} == {VERSION}


@pytest.mark.parametrize("role", ROLES)
def test_defaults_argument_specs_and_readme_agree(role):
    home = ROOT / "roles" / role
    raw = read_yaml(home / "defaults" / "main.yml")
    rendered = Defaults(role)
    specifications = read_yaml(home / "meta" / "argument_specs.yml")["argument_specs"]
    assert {"apply", "check", "main", "remove"} <= set(specifications)
    for specification in specifications.values():
        options = specification["options"]
        documented = {name: option["default"] for name, option in options.items() if "default" in option}
        # What only the host knows is documented by its expression.
        plain = {name: default for name, default in documented.items() if default != raw[name]}
        assert {name: rendered.render(default) for name, default in plain.items()} == {n: rendered[n] for n in plain}
        assert set(documented) == set(raw)
        assert set(options) == set(raw) | {name for name, option in options.items() if option.get("required")}
    rows = re.findall(r"^\| `(\w+)` \| ", (home / "README.md").read_text(), re.MULTILINE)
    assert set(rows) == {*options, *specifications} - {"main"}


SETTINGS = {
    "accelkit_namespace": ("space", ["certificates", "device_plugin", "extender", "second_scheduler"], "namespace"),
    "accelkit_image": ("reg/x:1", ["device_plugin", "extender", "scheduler"], "image"),
    "accelkit_unit": ("256MiB", ["device_plugin", "extender"], "unit"),
    "accelkit_policy": ("spread", ["extender"], "policy"),
    "accelkit_metrics_port": (0, ["device_plugin"], "metrics_port"),
    "accelkit_images_registry": ("reg/x", ["images"], "registry"),
    "accelkit_images_archive": ("/x.tar", ["images"], "archive"),
    "accelkit_images_base": ("base", ["images"], "base"),
    "accelkit_images_plugins": ("/x/plugins.lock", ["images"], "plugins"),
    "accelkit_shared_nodes": (["a"], ["node_labels"], "nodes"),
    "accelkit_adopt_nodes": (True, ["node_labels"], "adopt"),
    "accelkit_scheduler_launch": ({"kind": "k3s"}, ["scheduler"], "launch"),
    "accelkit_adopt_gcushare": (True, ["scheduler"], "adopt_gcushare"),
    "accelkit_node_name": ("n", ["scheduler"], "node"),
    "accelkit_reach": ("pod", ["scheduler"], "reach"),
    "accelkit_scheduler_name": ("other", ["second_scheduler"], "name"),
    "accelkit_guard_all_pods": (True, ["extender"], "guard_all_pods"),
    "accelkit_guard_exempt_namespaces": (["a"], ["extender"], "guard_exempt_namespaces"),
    "accelkit_scheduler_image": ("image", ["second_scheduler"], "image"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_setting_sets_role_variables_and_empty_text_selects_default(setting):
    value, roles, variable = SETTINGS[setting]
    for role in roles:
        name = f"{role}_{variable}"
        assert Defaults(role, **{setting: value})[name] == value
        assert Defaults(role, **{setting: ""})[name] == Defaults(role)[name]
        assert Defaults(role, **{setting: "x", name: "own"})[name] == "own"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("host_root", "/tree"),
        ("driver_root", "/run/nvidia/driver"),
        ("runtime_class", "nvidia"),
        ("cdi_devices", ["management.nvidia.com/gpu=all"]),
        ("privileged", True),
    ],
)
def test_discovery_pod_uses_driver_settings_of_agents(variable, value):
    given = {f"device_plugin_{variable}": value}
    assert Defaults("node_labels", **given)[f"node_labels_{variable}"] == value
    assert Defaults("node_labels")[f"node_labels_{variable}"] == Defaults("device_plugin")[f"device_plugin_{variable}"]
    tasks = read_yaml(ROOT / "roles/node_labels/tasks/apply.yml")
    [look] = [each[key] for each in tasks if (key := "accelkit.kubernetes.node_discover") in each]
    assert look[variable] == f"{{{{ node_labels_{variable} }}}}"


def test_role_variables_in_sample_inventory_exist():
    sample = (ROOT / "inventories/sample/group_vars/all.yml").read_text()
    offered = parse_yaml("\n".join(re.findall(r"^# ((?!accelkit_)[a-z]+_[a-z_]+: .*)", sample, re.MULTILINE)))
    assert {"device_plugin_runtime_class", "device_plugin_driver_root", "device_plugin_privileged"} <= offered.keys()
    for name, value in offered.items():
        [role] = [each for each in ROLES if name.startswith(f"{each}_")]
        assert type(Defaults(role)[name]) is type(value)


def test_dialects_setting_sets_variables_of_all_roles():
    given = {"accelkit_dialects": ["gcushare", "gas"]}
    assert Defaults("extender", **given)["extender_dialects"] == ["gcushare", "gas", "native"]
    assert Defaults("node_labels", **given)["node_labels_dialect"] == "gcushare"
    assert Defaults("device_plugin", **given)["device_plugin_dialect"] == "gcushare"
    assert Defaults("device_plugin", **given)["device_plugin_log_folder"] == "/var/log/topscloud/gcushare"
    assert Defaults("extender", **given)["extender_log_folder"] == "/var/log/topscloud/gcushare"
    # Intel's device plugin advertises what pods ask for in this dialect.
    assert Defaults("node_labels", accelkit_dialects=["gas"])["node_labels_dialect"] == "native"
    assert Defaults("device_plugin", accelkit_dialects=["gas", "aliyun"])["device_plugin_dialect"] == "aliyun"
    resources = Defaults("scheduler", **given)["scheduler_managed_resources"]
    assert {"accelkit.io/memory", "enflame.com/gcu-memory", "gpu.intel.com/i915"} <= set(resources)


def test_argument_specs_describe_all_dialects_and_policies():
    named = {
        "extender": {"extender_dialects": list_dialect_names(), "extender_policy": list(Policy)},
        "device_plugin": {"device_plugin_dialect": list_dialect_names(advertised=True)},
        "node_labels": {"node_labels_dialect": list_dialect_names(advertised=True)},
    }
    for role, options in named.items():
        specifications = read_yaml(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"][
            "options"
        ]
        for option, names in options.items():
            assert "choices" not in specifications[option]
            assert set(names) <= set(re.findall(r"[\w-]+", specifications[option]["description"].replace("'s", "")))
    assert read_yaml(ROOT / "roles/extender/tasks/preflight.yml")[0]["vars"]["extender_own_policies"] == list(Policy)


def test_dialect_keys_are_not_repeated_in_roles_and_playbooks():
    keys = {key for name in list_dialect_names() if (found := load_dialect(name).annotations) for key in found.keys}
    files = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*.yml")]
    assert [str(path) for path in files if any(key in path.read_text() for key in keys)] == []


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_all_task_files(role):
    names = {path.name for path in (ROOT / "roles" / role / "tasks").iterdir()}
    assert {"main.yml", "apply.yml", "check.yml", "remove.yml"} <= names


@pytest.mark.parametrize(("role", "name"), MANIFEST_ROLES.items())
def test_objects_have_common_labels_and_match_their_selector(role, name):
    for each in objects(role).values():
        assert each["metadata"]["name"] == name
        assert sorted(each["metadata"]["labels"]) == [
            "app.kubernetes.io/component",
            "app.kubernetes.io/managed-by",
            "app.kubernetes.io/name",
            "app.kubernetes.io/part-of",
            "app.kubernetes.io/version",
        ]
        if each["kind"] in ("Deployment", "DaemonSet"):
            selector = each["spec"]["selector"]["matchLabels"]
            assert selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
            assert "app.kubernetes.io/version" not in selector


def rights(found):
    return {(resource, verb) for rule in found["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def test_extender_may_bind_pods_and_patch_nodes_restricted_by_policy():
    made = objects("extender")
    reads = {(resource, verb) for resource in ("nodes", "pods") for verb in ("list", "watch")} | {("pods", "get")}
    binds = {("pods/binding", "create"), ("tokenreviews", "create")}
    assert rights(made["ClusterRole"]) == reads | binds | {("nodes", "patch"), ("pods", "patch")}
    assert made["ValidatingAdmissionPolicyBinding"]["spec"]["policyName"] == "accelkit-extender"
    # The bounds are there before the right.
    assert list(made)[:2] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert "--wake" in container("extender")[0]["args"]
    without = objects("extender", extender_wake=False)
    assert rights(without["ClusterRole"]) == reads | binds | {("pods", "patch")}
    assert "--wake" not in container("extender", extender_wake=False)[0]["args"]


def test_extender_with_pod_groups_may_patch_pods_restricted_by_policy():
    without = objects("extender")
    made = objects("extender", extender_pod_groups=True, extender_pod_group_hold=2)
    more = {
        ("pods/status", "patch"),
        ("podgroups", "list"),
        ("podgroups", "watch"),
        ("events", "create"),
    }
    assert rights(made["ClusterRole"]) - rights(without["ClusterRole"]) == more
    (policy,) = (
        each
        for each in policies("extender", extender_pod_groups=True)
        if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == "accelkit-extender-gates"
    )
    assert POD_GROUP_GATE in policy["spec"]["validations"][0]["expression"].partition(" :")[0]
    arguments = container("extender", extender_pod_groups=True, extender_pod_group_hold=2)[0]["args"]
    start = arguments.index("--pod-groups")
    assert arguments[start : start + 5] == ["--pod-groups", "--pod-group-hold", "2", "--pod-group-seconds", "60"]
    assert "--pod-groups" not in container("extender")[0]["args"]
    old = objects("extender", extender_pod_groups=True, admission=False)
    assert ("pods", "patch") not in rights(old["ClusterRole"])
    own = read_yaml(ROOT / "roles" / "extender" / "vars" / "main.yml")
    assert own["__extender_gate"] == POD_GROUP_GATE


def test_extender_replicas_may_patch_pods_restricted_by_policy():
    made = objects("extender", extender_wake=False)
    assert ("pods", "patch") in rights(made["ClusterRole"])
    policy = made["ValidatingAdmissionPolicy"]
    assert policy["metadata"]["name"] == "accelkit-extender-gates"
    # Without groups, no gate may be taken away.
    assert "filter" not in policy["spec"]["validations"][0]["expression"]
    for without in ({"admission": False}, {"extender_expose": "host"}):
        found = objects("extender", extender_wake=False, **without)
        assert ("pods", "patch") not in rights(found["ClusterRole"])
        names = [each["metadata"]["name"] for each in policies("extender", extender_wake=False, **without)]
        assert "accelkit-extender-gates" not in names
    own = read_yaml(ROOT / "roles" / "extender" / "vars" / "main.yml")
    assert own["__extender_fence_annotation"] == FENCED_AT_ANNOTATION


def test_extender_may_evict_pods_only_when_enabled():
    evicts = {("pods/eviction", "create"), ("events", "create"), ("poddisruptionbudgets", "list")}
    on, off = objects("extender", extender_evict_for_priority=True), objects("extender")
    assert rights(on["ClusterRole"]) - rights(off["ClusterRole"]) == evicts
    assert "--evict-for-priority" in container("extender", extender_evict_for_priority=True)[0]["args"]
    assert "--evict-for-priority" not in container("extender")[0]["args"]


def test_wake_annotation_of_policy_matches_extender():
    own = read_yaml(ROOT / "roles" / "extender" / "vars" / "main.yml")
    assert own["__extender_wake_annotation"] == FREED_AT_ANNOTATION


def test_node_agent_may_patch_nodes_and_pods_restricted_by_policy():
    made = objects("device_plugin")
    reads = {("nodes", "get"), ("nodes", "patch"), ("pods", "list"), ("pods", "watch"), ("events", "create")}
    assert rights(made["ClusterRole"]) == reads | {("pods", "patch")}
    owned = {(resource, verb) for resource in ("configmaps", "nodefeatures") for verb in ("create", "patch")}
    assert rights(made["Role"]) == owned | {("configmaps", verb) for verb in ("get", "list", "watch")}
    [read] = [rule for rule in made["Role"]["rules"] if "get" in rule["verbs"]]
    assert read["resourceNames"] == [MANAGED_RESOURCES_NAME]
    assert made["ValidatingAdmissionPolicyBinding"]["spec"]["policyName"] == "accelkit-node-agent"
    assert rights(objects("device_plugin", device_plugin_await_scheduler=False)["Role"]) == owned
    without = objects("device_plugin", device_plugin_corrections=False)
    assert rights(without["ClusterRole"]) == reads
    # The right to patch nodes is there still, and so are its bounds.
    assert without["ValidatingAdmissionPolicy"] == made["ValidatingAdmissionPolicy"]


def test_extender_on_host_listens_on_loopback_with_given_options():
    options = {"extender_port": 4000, "extender_policy": "spread", "extender_unit": "256MiB", "extender_log_folder": ""}
    found, spec = container("extender", extender_expose="host", **options)
    assert found["args"] == [
        *("extender", "--unit", "256MiB", "--policy", "spread", "--most-nodes", "16", "--dialect", "native", "--wake"),
        *("--listen", "127.0.0.1:4000", "--plain-http"),
    ]
    assert found["readinessProbe"]["httpGet"] == {"host": "127.0.0.1", "port": 4000, "path": "/readyz"}
    assert spec["hostNetwork"] is True
    made = objects("extender", extender_expose="host")
    assert made["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "Service" not in made
    assert ("tokenreviews", "create") not in rights(made["ClusterRole"])


def test_extender_replicas_behind_service_use_lease_and_tls():
    found, spec = container("extender", extender_namespace="x")
    assert found["args"][-4:] == ["--lease", "x/accelkit-extender", "--service", "accelkit-extender"]
    assert not {"--plain-http", "--no-http2"} & set(found["args"])
    assert "--no-http2" in container("extender", extender_http2=False)[0]["args"]
    assert "hostNetwork" not in spec
    made = objects("extender")
    assert made["Deployment"]["spec"]["replicas"] == 2
    # The leader writes where the Service leads.
    assert "selector" not in made["Service"]["spec"]
    assert found["readinessProbe"]["httpGet"] == {"port": "probes", "path": "/readyz"}
    (narrow,) = [rule for rule in made["Role"]["rules"] if rule["resources"] == ["services"]]
    assert narrow["resourceNames"] == ["accelkit-extender"]


def test_certificates_are_mounted_without_private_keys():
    _, spec = container("extender")
    (shown,) = [volume["projected"] for volume in spec["volumes"] if volume["name"] == "certificates"]
    job = renewal()["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (watched,) = [volume["projected"] for volume in job["volumes"] if volume["name"] == "certificates"]
    for projected in (shown, watched):
        items = [item for source in projected["sources"] for item in source["secret"]["items"]]
        assert {item["key"] for item in items} == {"tls.crt"}
        assert {item["path"] for item in items} >= {f"{CLIENT}.crt", f"{AUTHORITY}.crt"}


def test_renewal_job_may_update_only_server_secret():
    made = renewal()
    (secrets,) = [rule for rule in made["Role"]["rules"] if rule["resources"] == ["secrets"]]
    assert (secrets["resourceNames"], secrets["verbs"]) == ([SERVER], ["get", "update"])
    assert rights(made["Role"]) == {("secrets", "get"), ("secrets", "update"), ("events", "create")}
    pod = made["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == made["ServiceAccount"]["metadata"]["name"]
    (authority,) = [volume["secret"] for volume in pod["volumes"] if volume["name"] == "authority"]
    assert authority["secretName"] == AUTHORITY
    assert f"secretName: {AUTHORITY}" not in (ROOT / "roles/extender/templates/objects.yaml.j2").read_text()
    args = pod["containers"][0]["args"]
    # Before the role itself would find it late.
    assert int(args[args.index("--renew-days") + 1]) > 30
    command = main.get_command(click.Context(main), args[0])
    assert command.make_context(args[0], args[1:]).params["secrets"] == (SERVER,)


def renewal():
    own = {"__certificates_renewed": [SERVER], "certificates_namespace": "x"}
    return {each["kind"]: each for each in documents("certificates", "renewal.yaml.j2", **own)}


def test_inspector_role_grants_read_port_and_one_service_account():
    options = {"extender_name": "e", "extender_namespace": "x", "extender_read_port": 4000}
    found = documents("extender", "readers.yaml.j2", **options)
    roles = {each["metadata"]["name"]: each["rules"] for each in found if each["kind"] == "Role"}
    read = {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": [name_read_port("e")],
        "verbs": ["get", "create"],
    }
    token = {"resources": ["serviceaccounts/token"], "resourceNames": [INSPECTOR], "verbs": ["create"]}
    assert roles == {INSPECTOR: [read], f"{INSPECTOR}-user": [read, {"apiGroups": [""], **token}]}
    assert {each["metadata"]["namespace"] for each in found} == {"x"}
    (account,) = [each for each in found if each["kind"] == "ServiceAccount"]
    assert (account["metadata"]["name"], account["automountServiceAccountToken"]) == (INSPECTOR, False)
    (binding,) = [each for each in found if each["kind"] == "RoleBinding"]
    assert binding["roleRef"]["name"] == binding["subjects"][0]["name"] == INSPECTOR
    ports = {each["name"]: each["port"] for each in objects("extender", **options)["Service"]["spec"]["ports"]}
    assert ports[PORT_NAME] == 4000
    args = container("extender", **options)[0]["args"]
    assert args[args.index("--read-port") + 1] == "4000"


def test_extender_without_log_folder_mounts_no_host_path():
    _, spec = container("extender", extender_log_folder="")
    assert "initContainers" not in spec
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]


KUBELETS = {
    "/host/var/lib/kubelet/device-plugins": "/var/lib/kubelet/device-plugins",
    "/host/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources",
    "/host/proc": "/proc",
}


def mounted(found, spec):
    """What a container sees: path on the host, or name of a volume, by path."""
    volumes = {each["name"]: each.get("hostPath", {}).get("path", each["name"]) for each in spec["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in found["volumeMounts"]}


@pytest.mark.parametrize(("root", "below"), [("/", ""), ("/tree", "/tree"), ("/tree/", "/tree")])
def test_node_agent_mounts_host_paths_below_one_root(root, below):
    found, spec = container("device_plugin", device_plugin_log_folder="", device_plugin_host_root=root)
    assert found["args"] == [
        *["node-agent", "--unit", "1GiB", "--dialect", "native"],
        *["--await-host-files", "--managed-resources", MANAGED_RESOURCES_NAME, "--metrics-port", "32765"],
    ]
    assert {"name": "ACCELKIT_HOST_ROOT", "value": "/host"} in found["env"]
    assert mounted(found, spec) == {
        **KUBELETS,
        **{f"/host/sys/{name}": f"{below}/sys/{name}" for name in ("bus", "class", "devices", "module")},
        **{f"/host{path}": below + path for path in ("/dev", "/usr")},
        "/host/etc": "host-files",
        "/host/sys/fs/cgroup": "host-cgroups",
        "/var/run/secrets/kubernetes.io/serviceaccount": "token",
    }
    assert [mount["name"] for mount in found["volumeMounts"] if not mount.get("readOnly")] == ["device-plugins"]
    assert spec["nodeSelector"] == {"accelkit.io/share": "true"}


def test_node_agent_mounts_only_existing_and_non_sensitive_folders():
    found, spec = container("device_plugin", device_plugin_log_folder="")
    paths = [volume["hostPath"] for volume in spec["volumes"] if "hostPath" in volume]
    assert {each["type"] for each in paths} == {"Directory"}
    hidden = ("/", "/etc", "/run", "/var", "/root", "/sys", "/sys/fs", "/sys/fs/cgroup", "/sys/kernel")
    assert not [path for path in mounted(found, spec).values() if path in hidden]


@pytest.mark.parametrize("deep", [False, True])
def test_mounts_are_recursively_read_only_on_supported_clusters(deep):
    made = objects("device_plugin", deep_read_only=deep, device_plugin_processes=True, device_plugin_log_folder="")
    spec = made["DaemonSet"]["spec"]["template"]["spec"]
    read = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume} - {"device-plugins"}
    mounts = [mount for each in spec["containers"] for mount in each["volumeMounts"] if mount["name"] in read]
    assert {(mount["readOnly"], mount.get("recursiveReadOnly")) for mount in mounts} == {
        (True, "IfPossible" if deep else None)
    }


def test_host_files_container_has_no_token_and_another_user():
    _, spec = container("device_plugin", device_plugin_host_root="/tree")
    agent, files = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert files["args"] == ["host-files", "--to", "/files"]
    assert mounted(files, spec) == {
        "/host/etc": "/tree/etc",
        "/host/sys/fs/cgroup": "/tree/sys/fs/cgroup",
        "/files/etc": "host-files",
        "/files/sys/fs/cgroup": "host-cgroups",
    }
    assert files["image"] == agent["image"]
    # A process of the agent's own user would be open to it, mounts and all.
    assert files["securityContext"] == {
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("place", [root for root in DRIVER_ROOTS if root != "/"])
def test_driver_root_is_mounted_at_path_known_to_agent(place):
    found, spec = container("device_plugin", device_plugin_driver_root=place, device_plugin_host_root="/tree")
    seen = mounted(found, spec)
    assert seen[f"/host{place}"] == f"/tree{place}"
    assert "/host/usr" not in seen
    assert seen["/host/usr/lib/os-release"] == "/tree/etc/os-release"
    (driver,) = [mount for mount in found["volumeMounts"] if mount["name"] == "driver"]
    assert (driver["readOnly"], driver["mountPropagation"]) == (True, "HostToContainer")


def test_driver_root_choices_match_agent():
    options = read_yaml(ROOT / "roles/device_plugin/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert options["device_plugin_driver_root"]["choices"] == list(DRIVER_ROOTS)


def test_runtime_class_and_cdi_devices_are_set_on_agent_pod():
    made = objects("device_plugin", device_plugin_runtime_class="nvidia", device_plugin_cdi_devices=["a/b=c", "d/e=f"])
    template = made["DaemonSet"]["spec"]["template"]
    assert template["spec"]["runtimeClassName"] == "nvidia"
    (name, value), *_ = template["metadata"]["annotations"].items()
    assert (name, value) == ("nvidia.cdi.k8s.io/container.node-agent", "a/b=c,d/e=f")
    plain = objects("device_plugin")["DaemonSet"]["spec"]["template"]
    assert "runtimeClassName" not in plain["spec"]
    assert "annotations" not in plain["metadata"]
    agent, files = plain["spec"]["containers"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in agent["env"]
    assert [each["name"] for each in files["env"]] == ["ACCELKIT_HOST_ROOT"]


def test_privileged_setting_applies_only_to_agent_container():
    _, spec = container("device_plugin", device_plugin_privileged=True)
    agent, files = spec["containers"]
    # The API server refuses it beside allowPrivilegeEscalation: false.
    assert agent["securityContext"] == {"readOnlyRootFilesystem": True, "privileged": True}
    assert "privileged" not in files["securityContext"]


def test_log_format_is_passed_to_agent():
    found, _ = container("device_plugin", device_plugin_log_format="json")
    assert found["args"][-2:] == ["--log-format", "json"]


def test_health_checks_and_steering_can_be_disabled():
    assert not {"--health-checks", "--no-steering"} & set(container("device_plugin")[0]["args"])
    found, _ = container("device_plugin", device_plugin_health_checks="files", device_plugin_steering=False)
    assert found["args"][found["args"].index("--health-checks") :][:3] == ["--health-checks", "files", "--no-steering"]


def test_former_unit_is_passed_to_agent():
    arguments = container("device_plugin", device_plugin_former_unit="0.1")[0]["args"]
    assert arguments[arguments.index("--former-unit") + 1] == "0.1"


def test_additional_host_folders_can_be_mounted_into_agent():
    # Names of volumes take no dot, capital or slash, folders do.
    folders = ["/etc/cdi", "/var/run/CDI_1.0"]
    options = {
        "device_plugin_cdi_folders": folders,
        "device_plugin_mps_folder": "/tmp/mps",
        "device_plugin_cgroups": True,
    }
    found, _ = container("device_plugin", **options)
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in found["volumeMounts"]}
    more = {"/host/etc/cdi": True, "/host/var/run/CDI_1.0": True, "/host/tmp/mps": True, "/host/sys/fs/cgroup": False}
    assert more.items() <= mounts.items()
    assert "--cgroup-limits" in found["args"]
    names = {mount["mountPath"]: mount["name"] for mount in found["volumeMounts"]}
    assert [names[f"/host{folder}"] for folder in folders] == ["cdi-1", "cdi-2"]
    # A folder within the copies of /etc has its mount point made there.
    assert mounts["/host/etc"] is False
    assert found["args"][found["args"].index("--mps-folder") + 1] == "/tmp/mps"
    assert found["args"][found["args"].index("--mps-shared-memory") + 1] == "/tmp/mps/shm"
    found, _ = container("device_plugin", **options, device_plugin_mps_shm="/run/mps-memory")
    assert "/host/run/mps-memory" in [mount["mountPath"] for mount in found["volumeMounts"]]


def test_process_scan_container_has_only_required_rights():
    found, spec = container("device_plugin", device_plugin_processes=True)
    assert "add" not in found["securityContext"]["capabilities"]
    (scan,) = [each for each in spec["containers"] if each["name"] == "process-scan"]
    assert scan["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
    }
    written = [mount["name"] for mount in scan["volumeMounts"] if not mount.get("readOnly")]
    assert written == ["process-scan"]
    assert {mount["mountPath"] for mount in scan["volumeMounts"]} == {
        "/host/proc",
        "/host/dev",
        "/run/accelkit/process-scan",
    }
    assert found["args"][found["args"].index("--process-scan") + 1] == scan["args"][-1]
    names = [each["name"] for each in container("device_plugin")[1]["containers"]]
    assert names == ["node-agent", "host-files"]


@pytest.mark.parametrize("role", MANIFEST_ROLES)
def test_containers_cannot_gain_privileges(role):
    found, spec = container(role)
    security = found["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"]["drop"] == ["ALL"]
    assert "add" not in security["capabilities"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
