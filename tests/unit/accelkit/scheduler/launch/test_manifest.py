import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd_manifests import CONFIGURATION, HOSTS, PLAIN, POLICY, Host, indented_lists, with_mount, with_options
from scheduler_manifests import MINORS, kubeadm_manifest
from strict_types import violations
from support.yaml import parse_yaml
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.versions import parse_minor
from accelkit.scheduler.launch.manifest import StaticPod

POD = StaticPod()
NAMED = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)


# Reading YAML with its layout takes a quarter of a second, and many tests look at the same plan.
_plans = {}


def planned(host, recorded=None, current=None, **changed):
    if recorded is None and current is None and not changed:
        key = (host.manifest, host.version, *host.files.items())
        if key not in _plans:
            _plans[key] = _plan(host)
        return _plans[key]
    return _plan(host, recorded, current, **changed)


def _plan(host, recorded=None, current=None, **changed):
    return POD.plan(current or host.manifest, recorded, host.read, desired(host.version, **changed))


def words(text):
    container = next(each for each in parse_yaml(text)["spec"]["containers"] if "scheduler" in each["name"])
    return [*container.get("command", []), *container.get("args", [])]


def written(plan):
    return parse_yaml(plan.files[plan.marker.partition("=")[2]].content.decode())


@NAMED
def test_plan_references_valid_configuration_and_mounts_its_folder(host):
    plan = planned(host)
    assert words(plan.launch_text).count(plan.marker) == 1
    spec = parse_yaml(plan.launch_text)["spec"]
    scheduler = next(each for each in spec["containers"] if "scheduler" in each["name"])
    folder = "/etc/kubernetes/accelkit"
    assert {"mountPath": folder, "name": "accelkit", "readOnly": True} in scheduler["volumeMounts"]
    assert {"hostPath": {"path": folder, "type": "Directory"}, "name": "accelkit"} in spec["volumes"]
    assert violations(written(plan), parse_minor(host.version)) == []
    assert set(plan.files) >= {plan.marker.partition("=")[2]}
    assert all(path.startswith(folder + "/") for path in plan.files)


@NAMED
def test_unswitch_restores_original_bytes(host):
    assert POD.unswitch(planned(host).launch_text, host.manifest) == host.manifest
    assert POD.is_switched(planned(host).launch_text)
    assert not POD.is_switched(host.manifest)
    assert POD.unswitch(host.manifest, host.manifest) == host.manifest


@NAMED
def test_second_plan_changes_nothing(host):
    plan = planned(host)
    assert planned(host, recorded=host.manifest, current=plan.launch_text) == plan


@NAMED
def test_plan_leaves_other_lines_unchanged(host):
    plan = planned(host)
    after = plan.launch_text.splitlines(keepends=True)
    replaced = ("config", "policy", "- team", "- /etc/own", "command: [", ": []")
    kept = [line for line in host.manifest.splitlines(keepends=True) if not any(each in line for each in replaced)]
    remaining = iter(after)
    assert all(line.rstrip() in (each.rstrip() for each in remaining) for line in kept)


@NAMED
def test_unswitch_preserves_later_changes_of_manifest(host):
    def upgraded(text):
        return text.replace("cpu: 100m", "cpu: 250m").replace("--leader-elect=true", "--leader-elect=false")

    assert upgraded(host.manifest) != host.manifest
    changed = upgraded(planned(host).launch_text)
    assert POD.unswitch(changed, host.manifest) == upgraded(host.manifest)


def test_existing_configuration_is_merged():
    plan = planned(HOSTS["existing configuration"])
    text = plan.files[plan.marker.partition("=")[2]].content.decode()
    assert text.startswith(CONFIGURATION)
    assert [each["urlPrefix"] for each in written(plan)["extenders"]] == [
        "http://10.0.0.9:8000",
        "https://10.96.0.77:32766",
    ]
    assert "--config=/etc/own.yaml" not in words(plan.launch_text)


@pytest.mark.parametrize("name", ["existing policy file", "existing policy in a ConfigMap"])
def test_existing_policy_remains_policy(name):
    plan = planned(HOSTS[name])
    (path,) = [path for path in plan.files if path.endswith(".json")]
    policy = json.loads(plan.files[path].content)
    assert policy["predicates"] == json.loads(POLICY)["predicates"]
    assert [each["enableHttps"] for each in policy["extenders"]] == [True]
    assert not any("configmap" in word or "legacy" in word for word in words(plan.launch_text))
    assert plan.marker == f"--policy-config-file={path}"


def test_existing_configuration_is_unchanged_if_policy_file_is_also_used():
    host = HOSTS["policy file beside a configuration"]
    assert "--config=/etc/own/c.yaml" in words(planned(host).launch_text)


def test_rotated_certificate_keeps_file_names_and_rotated_ca_changes_them():
    plan = planned(Host(PLAIN))
    leaf = desired("v1.34.4").credentials.__class__(ca=b"authority", certificate=b"new", key=b"new")
    assert planned(Host(PLAIN), credentials=leaf).launch_text == plan.launch_text
    authority = desired("v1.34.4").credentials.__class__(ca=b"both", certificate=b"certificate", key=b"key")
    assert planned(Host(PLAIN), credentials=authority).marker != plan.marker


def test_client_key_is_owned_by_user_of_scheduler():
    rootless = PLAIN.replace("    seccompProfile:", "    runAsUser: 10259\n    seccompProfile:")
    key = planned(Host(rootless)).files["/etc/kubernetes/accelkit/client.key"]
    assert (key.mode, key.owner) == ("0600", 10259)
    assert planned(Host(PLAIN)).files["/etc/kubernetes/accelkit/client.key"].owner is None


def test_no_tls_is_configured_without_credentials():
    plan = planned(Host(PLAIN), credentials=None, extender=ExtenderEntry(url_prefix="http://10.96.0.1:1"))
    assert [entry["enableHTTPS"] for entry in written(plan)["extenders"]] == [False]
    assert len(plan.files) == 1


ALIASED = PLAIN.replace("  - command:\n", "  - command: &words\n").replace("status: {}", "status:\n  x: *words")
REFUSED = {
    "not YAML": ("spec: [", "is not a single YAML document"),
    "tabs": ("spec:\n\tcontainers: []\n", "is not a single YAML document"),
    "empty": ("", "is not a mapping"),
    "several documents": (PLAIN + "---\n" + PLAIN, "is not a single YAML document"),
    "a list": ("- a\n", "is not a mapping"),
    "not a Pod": (PLAIN.replace("kind: Pod", "kind: Deployment"), "kind 'Deployment'"),
    "no spec": ("apiVersion: v1\nkind: Pod\n", "not of kind 'Pod'"),
    "no containers": ("kind: Pod\nspec: {}\n", "no list of containers"),
    "no command": (PLAIN.replace(PLAIN[PLAIN.index("command:") : PLAIN.index("image:")], ""), "0 of its 1 containers"),
    "another program": (PLAIN.replace("- kube-scheduler\n", "- kube-proxy\n"), "0 of its 1 containers"),
    "two of two": (
        PLAIN.replace("  hostNetwork:", "  - name: two\n    command: [kube-scheduler]\n  hostNetwork:"),
        "2 of its 2 containers",
    ),
    "none of two": (
        PLAIN.replace("- kube-scheduler\n", "- a\n").replace(
            "  hostNetwork:", "  - name: two\n    command: [b]\n  hostNetwork:"
        ),
        "0 of its 2 containers",
    ),
    "numbers": (PLAIN.replace("- --leader-elect=true", "- 5"), "not a list of strings"),
    "a shell": (
        PLAIN.replace("    - kube-scheduler\n", "    - sh\n    - -c\n    - exec kube-scheduler --v=2\n"),
        "it is part of a shell script",
    ),
    "a stray word": (
        PLAIN.replace("- --bind-address=127.0.0.1", "- stray"),
        "'stray' is neither an option nor a value",
    ),
    "a merge": (
        "x: &base {command: [kube-scheduler]}\nkind: Pod\nspec:\n  containers:\n  - <<: *base\n    name: own\n",
        "the part to change uses a YAML alias",
    ),
    "a date that is none": (PLAIN.replace("status: {}", "status: 2020-13-45"), "cannot read .* as YAML"),
    "a policy from a ConfigMap without its key": (
        with_options(kubeadm_manifest(21), "--policy-configmap=own"),
        r"the ConfigMap kube-system/own has no key policy\.cfg",
    ),
    "aliases": (ALIASED, "the part to change uses a YAML alias"),
    "a key twice": (
        PLAIN.replace("  hostNetwork: true\n", "  hostNetwork: true\n" * 2),
        "is not a single YAML document",
    ),
    "config from nowhere": (with_options(PLAIN, "--config=/a.yaml"), "does not mount"),
    "config missing": (with_mount(with_options(PLAIN, "--config=/a"), "/b", "/a"), "the host has no /b"),
    "config in a ConfigMap volume": (
        with_mount(with_options(PLAIN, "--config=/a"), "/b", "/a").replace(
            "  - hostPath:\n      path: /b\n      type: File\n", "  - configMap:\n      name: c\n"
        ),
        "which is not a hostPath",
    ),
    "a policy too late": (with_options(PLAIN, "--policy-configmap=own"), r"1\.34 does not support"),
    "unknown value": (
        PLAIN.replace("--leader-elect=true", "--leader-elect=perhaps"),
        "kube-scheduler rejects its value",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_manifest_that_cannot_be_edited_is_refused_with_one_line(text, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        planned(Host(text, "v1.21.0" if "v1.21." in text else "v1.34.4"), current=text)
    assert "\n" not in str(caught.value)


def test_already_switched_manifest_is_kept_byte_for_byte():
    odd = planned(Host(PLAIN)).launch_text.replace("  hostNetwork: true\n", "  hostNetwork:   true # odd\n\n\n")
    assert planned(Host(PLAIN), recorded=PLAIN, current=odd).launch_text == odd


def test_json_manifest_is_edited_and_restored():
    text = json.dumps(parse_yaml(PLAIN), indent=4)
    plan = planned(Host(text))
    assert plan.marker in words(plan.launch_text)
    assert parse_yaml(POD.unswitch(plan.launch_text, None)) == parse_yaml(text)
    assert POD.unswitch(plan.launch_text, text) == text


LAYOUTS = {
    "plain": lambda text: text,
    "indented": indented_lists,
    "windows": lambda text: text.replace("\n", "\r\n"),
    "document": lambda text: "---\n" + text,
    "quoted": lambda text: text.replace(
        "- --kubeconfig=/etc/kubernetes/scheduler.conf", '- "--kubeconfig=/etc/kubernetes/scheduler.conf"'
    ),
    "args": lambda text: text.replace("    - kube-scheduler\n", "    - kube-scheduler\n    args:\n"),
}
OPTIONS = st.lists(
    st.sampled_from(
        ["--v=2", "--feature-gates=A=true", "--profiling=false", "--kube-api-qps=80", "--tls-min-version=VersionTLS12"]
    ),
    unique=True,
)


@settings(max_examples=20)  # each reads and writes a manifest a dozen times
@given(
    minor=st.sampled_from(MINORS),
    options=OPTIONS,
    layout=st.sampled_from(sorted(LAYOUTS)),
    existing=st.booleans(),
    comments=st.lists(st.integers(0, 60), max_size=3),
)
@example(minor=27, options=[], layout="indented", existing=True, comments=[17])
def test_unswitch_reverses_switch_for_any_layout(minor, options, layout, existing, comments):
    text = with_options(kubeadm_manifest(minor), *options)
    files = {}
    if existing and minor >= 25:
        text = with_mount(with_options(text, "--config=/etc/own.yaml"), "/opt/s.yaml", "/etc/own.yaml")
        files = {"/opt/s.yaml": CONFIGURATION}
    lines = LAYOUTS[layout](text).splitlines(keepends=True)
    for place in sorted(comments, reverse=True):
        lines.insert(min(place, len(lines)), "# a comment\n")
    text = "".join(lines)
    host = Host(text, f"v1.{minor}.3", files)
    plan = planned(host)
    assert POD.unswitch(plan.launch_text, text) == text
    without_record = parse_yaml(POD.unswitch(plan.launch_text, None))
    if not files:
        assert without_record == parse_yaml(text)
    assert planned(host, recorded=text, current=plan.launch_text) == plan
    assert plan.launch_text.count("# a comment") == text.count("# a comment")
    assert violations(written(plan), minor) == []
