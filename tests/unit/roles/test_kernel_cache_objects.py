"""The objects of the role kernel_cache, as Ansible renders them; what they refuse is tested on an API server."""

from __future__ import annotations

import json

import pytest
from kernel_cache_cases import ROLE, render_cases
from rendering import render
from support.yaml import read_yaml

from accelkit.cachecontroller.webhook.server import PATH
from accelkit.gkm.names import HOST_FOLDER
from accelkit.gkm.objects import CACHE_KIND, CLUSTER_CACHE_KIND
from accelkit.install.certificates.secrets import WEBHOOK
from accelkit.model.keys import (
    CACHE_FINALIZER,
    CACHE_MOUNT_ANNOTATION,
    CACHE_PINNED_ANNOTATION,
    CACHE_WRITABLE_ANNOTATION,
)

CONTROLLER, AGENT = "accelkit-cache-controller", "accelkit-cache-agent"
# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("kernel_cache_role"), pytest.mark.timeout(600)]
# Who keeps what pods share from being written.
WRITERS = {
    *("accelkit-cache-writable", "accelkit-cluster-cache-writable", "accelkit-cache-folders", "accelkit-cache-volumes"),
    "accelkit-cache-finalizers",
}
# Which pods the webhook has to have handled.
HANDLED = {"accelkit-cache-handled", "accelkit-cluster-cache-handled", "accelkit-cache-requests"}
KEY = {"name": "ci", "key": {"data": "-----BEGIN PUBLIC KEY-----"}}
CASES = {
    "defaults": {},
    "bare": {
        "kernel_cache_webhook": False,
        "kernel_cache_metrics_port": 0,
        "kernel_cache_scan": False,
        "kernel_cache_agent_former_user": 0,
        "kernel_cache_adopt": True,
    },
    "full": {
        "kernel_cache_pull_secret_namespaces": ["team-a", "team-b/one", "team-b/two", "accelkit/quay"],
        "kernel_cache_registry_mirrors": {"quay.io": ["m1:5000/q", "m2"], "docker.io": "m3"},
        "kernel_cache_registry_plain_http": ["r:5000"],
        "kernel_cache_registry_ca": "{folder}/ca.pem",
        "kernel_cache_trusted_root": "{folder}/root.json",
        "kernel_cache_max_gib": 1.5,
        "kernel_cache_min_free_gib": 2,
        "kernel_cache_min_free_percent": 0,
        "kernel_cache_signer_policies": [{"name": "acme", "spec": {"images": ["quay.io/acme/**"], "signers": [KEY]}}],
    },
}
ROOT_TEXT = '{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """All objects by case, kind and name."""
    folder = tmp_path_factory.mktemp("kernel_cache")
    (folder / "ca.pem").write_text("a certificate\n")
    (folder / "root.json").write_text(ROOT_TEXT)
    return render_cases(folder, CASES)


def rules(made):
    return {
        (resource, verb)
        for rule in made["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if "resourceNames" not in rule
    }


def containers(made):
    spec = made["spec"]["template"]["spec"]
    return {each["name"]: each for each in [*spec["containers"], *spec.get("initContainers", [])]}


def arguments(container):
    """The values of each option of a container."""
    found: dict[str, list[str]] = {}
    for name, value in zip(container["args"][1::2], container["args"][2::2], strict=True):
        found.setdefault(name, []).append(value)
    return found


def test_all_objects_have_common_labels(rendered):
    for (_, kind, name), each in rendered.items():
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "accelkit"
        assert labels["app.kubernetes.io/managed-by"] == "ansible"
        # That of what the controller makes is another one.
        assert labels["app.kubernetes.io/component"] == "kernel-caches"
        if kind in {"Deployment", "DaemonSet"}:
            selected = each["spec"]["selector"]["matchLabels"].items()
            assert selected <= each["spec"]["template"]["metadata"]["labels"].items()
            assert name in {CONTROLLER, AGENT}


def test_names_in_role_match_names_in_code():
    own = read_yaml(ROLE / "vars/main.yml")
    assert own["__kernel_cache_folder"] == str(HOST_FOLDER)
    assert own["__kernel_cache_finalizer"] == CACHE_FINALIZER
    assert own["__kernel_cache_kinds"] == [CACHE_KIND, CLUSTER_CACHE_KIND]
    assert read_yaml(ROLE / "defaults/main.yml")["kernel_cache_webhook_secret"] == WEBHOOK


def test_controller_cannot_read_secrets_or_write_nodes_and_pods(rendered):
    found = rules(rendered["defaults", "ClusterRole", CONTROLLER])
    resources = {resource for resource, _ in found}
    assert not {each for each in resources if each.startswith(("secrets", "*"))}
    for resource in ("pods", "nodes", "namespaces"):
        assert {verb for of, verb in found if of == resource} == {"list", "watch"}
    # What runs anything is made and seen in accelkit's own namespace alone, and copies of pull secrets for it.
    assert not resources & {"jobs", "daemonsets", "configmaps", "volumesnapshots"}
    own = rules(rendered["defaults", "Role", CONTROLLER])
    assert {resource for resource, verb in own if verb == "create"} == {
        *("leases", "configmaps", "secrets", "daemonsets", "jobs", "volumesnapshots")
    }
    assert {verb for resource, verb in own if resource == "secrets"} == {"create"}
    assert not {("gkmcaches", verb) for verb in ("create", "delete")} & found
    for reports in ("gkmcachenodes", "clustergkmcachenodes"):
        assert {verb for of, verb in found if of == reports} == {"list", "watch"}
    for case in CASES:
        assert all("resourceNames" not in rule for rule in rendered[case, "ClusterRole", CONTROLLER]["rules"])


def test_no_account_may_write_admission_policies(rendered):
    for (_, kind, _), made in rendered.items():
        if kind in {"ClusterRole", "Role"}:
            groups = {group for rule in made["rules"] for group in rule["apiGroups"]}
            assert not groups & {"admissionregistration.k8s.io", "*"}


def test_agents_may_write_only_cache_reports(rendered):
    found = rules(rendered["defaults", "ClusterRole", AGENT])
    writing = {(resource, verb) for resource, verb in found if verb not in {"get", "list", "watch"}}
    assert {resource for resource, _ in writing} == {
        *("gkmcachenodes", "clustergkmcachenodes", "gkmcachenodes/status", "clustergkmcachenodes/status")
    }
    assert {verb for resource, verb in found if resource == "nodes"} == {"list", "watch"}
    assert not {resource for resource, _ in found if resource.startswith("secrets")}
    # A right that only a policy bounds comes with it.
    assert ("defaults", "ValidatingAdmissionPolicyBinding", AGENT) in rendered


def test_namespaces_of_pull_secrets_are_subjects_of_binding(rendered):
    assert not [key for key in rendered if key[0] == "defaults" and key[2].endswith("pull-secrets")]
    name = f"{CONTROLLER}-pull-secrets"
    homes = {subject["namespace"] for subject in rendered["full", "ClusterRoleBinding", name]["subjects"]}
    assert homes == {"team-a", "team-b", "accelkit"}
    # It tells where to look, and gives nothing.
    assert rendered["full", "ClusterRole", name]["rules"] == []


def test_role_in_each_namespace_grants_get_on_listed_secrets_only(tmp_path):
    given = {key: value for key, value in CASES["full"].items() if "{folder}" not in str(value)}
    found = render(tmp_path, "kernel_cache", "objects.yaml.j2", {"full": given})["full"]
    made = [each for each in found if each["metadata"]["name"].endswith("-pull-secrets")]
    roles = {each["metadata"]["namespace"]: each["rules"] for each in made if each["kind"] == "Role"}
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    assert roles == {
        "team-a": [secrets],
        "team-b": [{**secrets, "resourceNames": ["one", "two"]}],
        "accelkit": [{**secrets, "resourceNames": ["quay"]}],
    }
    bound = [each for each in made if each["kind"] == "RoleBinding"]
    assert {subject["name"] for each in bound for subject in each["subjects"]} == {CONTROLLER, AGENT}


def test_registry_settings_are_passed_to_controller_and_agent(rendered):
    for kind, name, container in (("Deployment", CONTROLLER, "cache-controller"), ("DaemonSet", AGENT, "cache-agent")):
        made = rendered["full", kind, name]
        given = arguments(containers(made)[container])
        assert given["--mirror"] == ["quay.io=m1:5000/q", "quay.io=m2", "docker.io=m3"]
        assert given["--plain-http"] == ["r:5000"]
        assert given["--registry-ca"] == ["/etc/accelkit/registries/ca.crt"]
        assert given["--trusted-root"] == ["/etc/accelkit/registries/trusted_root.json"]
        assert "accelkit.io/registries" in made["spec"]["template"]["metadata"]["annotations"]
        bare = arguments(containers(rendered["defaults", kind, name])[container])
        assert not {"--mirror", "--plain-http", "--registry-ca", "--trusted-root"} & bare.keys()
    data = rendered["full", "ConfigMap", f"{CONTROLLER}-registries"]["data"]
    assert data["trusted_root.json"] == ROOT_TEXT
    assert data["ca.crt"].strip() == "a certificate"


def test_controller_arguments_contain_lease_webhook_and_image(rendered):
    given = arguments(containers(rendered["defaults", "Deployment", CONTROLLER])["cache-controller"])
    assert given["--lease"] == [f"accelkit/{CONTROLLER}"]
    assert given["--identity"] == ["$(POD_NAME)"]
    assert given["--webhook-cert"] == ["/etc/accelkit/webhook/tls.crt"]
    assert given["--image"] == [containers(rendered["defaults", "Deployment", CONTROLLER])["cache-controller"]["image"]]
    bare = arguments(containers(rendered["bare", "Deployment", CONTROLLER])["cache-controller"])
    assert not {"--webhook-port", "--webhook-cert", "--metrics-port"} & bare.keys()
    assert ("bare", "MutatingWebhookConfiguration", CONTROLLER) not in rendered
    assert ("bare", "Service", CONTROLLER) not in rendered


def test_webhook_configuration_is_complete(rendered):
    (webhook,) = rendered["defaults", "MutatingWebhookConfiguration", CONTROLLER]["webhooks"]
    assert webhook["clientConfig"]["service"] == {
        "namespace": "accelkit",
        "name": CONTROLLER,
        "port": 443,
        "path": PATH,
    }
    # Pods of other workloads are created while the webhook is down.
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
    (condition,) = webhook["matchConditions"]
    for key in (CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION):
        assert f"'{key}'" in condition["expression"]
    (spared,) = webhook["namespaceSelector"]["matchExpressions"]
    assert (spared["operator"], spared["values"]) == ("NotIn", ["kube-system", "accelkit"])


@pytest.mark.parametrize(
    ("data", "bundle"),
    [
        ({"ca.crt": "Y2E=", "tls.crt": "bGVhZg==", "tls.key": "a2V5"}, "Y2E="),
        ({"ca.crt": "", "tls.crt": "bGVhZg=="}, "bGVhZg=="),
        ({"tls.crt": "bGVhZg=="}, "bGVhZg=="),
        (None, None),
    ],
    ids=["of an authority", "of an empty authority", "of itself", "before there is one"],
)
def test_webhook_ca_bundle_is_authority_or_certificate_itself(tmp_path, data, bundle):
    found = {"resources": [] if data is None else [{"data": data}]}
    cases = {"given": {"kernel_cache_certificate": found}, "skipped": {"kernel_cache_certificate": {"skipped": True}}}
    made = render_cases(tmp_path, cases)
    (webhook,) = made["given", "MutatingWebhookConfiguration", CONTROLLER]["webhooks"]
    assert webhook["clientConfig"].get("caBundle") == bundle
    (webhook,) = made["skipped", "MutatingWebhookConfiguration", CONTROLLER]["webhooks"]
    assert "caBundle" not in webhook["clientConfig"]


def test_policies_reject_pods_not_handled_by_webhook(rendered):
    for name in HANDLED:
        spec = rendered["defaults", "ValidatingAdmissionPolicy", name]["spec"]
        assert spec["failurePolicy"] == "Fail"
        assert f"'{CACHE_PINNED_ANNOTATION}'" in json.dumps(spec)
        assert spec["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE"]
        binding = rendered["defaults", "ValidatingAdmissionPolicyBinding", name]["spec"]
        assert (binding["policyName"], binding["validationActions"]) == (name, ["Deny"])
        assert ("bare", "ValidatingAdmissionPolicy", name) not in rendered
        assert ("bare", "ValidatingAdmissionPolicyBinding", name) not in rendered


def test_agents_run_on_shared_nodes_with_cache_budget(rendered):
    made = rendered["full", "DaemonSet", AGENT]
    spec = made["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"accelkit.io/share": "true"}
    given = arguments(containers(made)["cache-agent"])
    assert given["--max-gib"] == ["1.5"]
    assert given["--min-free-gib"] == ["2"]
    assert given["--min-free-percent"] == ["0"]
    assert (
        not {"--max-gib", "--min-free-gib", "--min-free-percent"}
        & arguments(containers(rendered["defaults", "DaemonSet", AGENT])["cache-agent"]).keys()
    )


def test_containers_gain_no_privileges_and_only_agent_mounts_token(rendered):
    for (_, kind, _), made in rendered.items():
        if kind not in {"Deployment", "DaemonSet"}:
            continue
        spec = made["spec"]["template"]["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for name, each in containers(made).items():
            held = each["securityContext"]
            assert (held["allowPrivilegeEscalation"], held["readOnlyRootFilesystem"]) == (False, True)
            assert held["capabilities"]["drop"] == ["ALL"]
            added = held["capabilities"].get("add", [])
            rights = {"folder": "CHOWN", "cache-agent": "LINUX_IMMUTABLE", "cache-scan": "DAC_READ_SEARCH"}
            assert added == ([rights[name]] if name in rights else [])
    spec = rendered["defaults", "DaemonSet", AGENT]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    holders = [
        each["name"] for each in spec["containers"] if any(mount["name"] == "token" for mount in each["volumeMounts"])
    ]
    assert holders == ["cache-agent"]
    (scan,) = [each for each in spec["containers"] if each["name"] == "cache-scan"]
    assert [mount for mount in scan["volumeMounts"] if not mount.get("readOnly")] == [
        {"name": "cache-scan", "mountPath": "/run/accelkit/cache-scan"}
    ]


def test_policies_and_bindings_restrict_rights_of_all_accounts(rendered):
    for case, names in {
        "defaults": {CONTROLLER, f"{CONTROLLER}-mirrors", f"{CONTROLLER}-status", AGENT, *WRITERS, *HANDLED},
        # GKM's own operator, where it is adopted, writes the status too.
        "bare": {CONTROLLER, f"{CONTROLLER}-mirrors", AGENT, *WRITERS},
    }.items():
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
            assert names <= {name for of, each, name in rendered if (of, each) == (case, kind)}
    assert ("bare", "ValidatingAdmissionPolicy", f"{CONTROLLER}-status") not in rendered


def test_kubelets_cannot_create_pods_selected_by_webhook_service(rendered):
    spec = rendered["defaults", "ValidatingAdmissionPolicy", f"{CONTROLLER}-mirrors"]["spec"]
    assert [each["expression"] for each in spec["matchConditions"]] == [
        "'system:nodes' in request.userInfo.?groups.orValue([]) && request.namespace == 'accelkit'"
    ]
    selected = {"app.kubernetes.io/name": CONTROLLER, "app.kubernetes.io/part-of": "accelkit"}
    assert [each["expression"] for each in spec["validations"]] == [
        "object.metadata.?labels['app.kubernetes.io/part-of'].orValue('') != 'accelkit'"
    ]
    assert rendered["defaults", "Service", CONTROLLER]["spec"]["selector"] == selected
    template = rendered["defaults", "Deployment", CONTROLLER]["spec"]["template"]
    assert selected.items() <= template["metadata"]["labels"].items()


def test_signer_policies_are_rendered_from_variable(rendered):
    made = rendered["full", "SignerPolicy", "acme"]
    assert made["apiVersion"] == "accelkit.io/v1alpha1"
    assert made["spec"] == {"images": ["quay.io/acme/**"], "signers": [KEY]}
    assert not [key for key in rendered if key[:2] == ("defaults", "SignerPolicy")]
