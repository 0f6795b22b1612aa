import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import example_manifests

from accelkit.examples.deployment import ObjectChange, ObjectOutcome
from accelkit.examples.example import SETS

ONE = {"access": "rwo", "scope": "namespace", "gpu": "rocm", "cosign": "v3", "environment": "kind"}
FILE = "rwo-ns-rocm-v3-kind.yaml"


@pytest.fixture
def cluster(stub):
    """A cluster in which everything that is asked for happens; what it was asked for, by what becomes of it."""

    def answer(name, outcome):
        unchanged = ObjectChange("Pod n/p", ObjectOutcome.UNCHANGED)
        return stub(example_manifests, name, [ObjectChange("Namespace n", outcome), unchanged])

    return {"created": answer("deploy", ObjectOutcome.CREATED), "deleted": answer("undeploy", ObjectOutcome.DELETED)}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("CUSTOM_AFFINITY", "CUSTOM_TOLERATION", *(f"CUSTOM_NODE_SELECTOR_{n}" for n in (1, 2, 3))):
        monkeypatch.delenv(name, raising=False)


def test_writing_manifest_is_idempotent(run_module, tmp_path):
    answer = run_module(example_manifests, {**ONE, "output": str(tmp_path / "o")})
    assert (answer["changed"], answer["files"]) == (True, [str(tmp_path / "o" / FILE)])
    assert answer["diff"][0]["before"] == ""
    assert answer["diff"][0]["after"] == (tmp_path / "o" / FILE).read_text()
    again = run_module(example_manifests, {**ONE, "output": str(tmp_path / "o")})
    assert (again["changed"], again["files"], again["diff"]) == (False, answer["files"], [])


def test_check_mode_writes_nothing_and_returns_same_diff(run_module, tmp_path):
    checked = run_module(example_manifests, {**ONE, "output": str(tmp_path / "o")}, check=True)
    assert not (tmp_path / "o").exists()
    assert checked == {**run_module(example_manifests, {**ONE, "output": str(tmp_path / "o")}), **invocation(checked)}


def invocation(answer):
    # It names check mode.
    return {"invocation": answer["invocation"]}


def test_set_is_written_as_one_file_per_example(run_module, tmp_path):
    answer = run_module(example_manifests, {"set": "kind", "output": str(tmp_path)})
    assert answer["files"] == [str(tmp_path / each.file_name) for each in SETS["kind"]]


@pytest.mark.parametrize("check", [True, False])
def test_absent_state_deletes_files_of_selected_examples(run_module, tmp_path, check):
    run_module(example_manifests, {"set": "kind", "output": str(tmp_path)})
    (tmp_path / "mine.yaml").touch()
    name = SETS["kind"][0].file_name
    one = {"access": "rwo", "scope": "ns", "gpu": "rocm", "cosign": "v2", "environment": "kind"}
    answer = run_module(example_manifests, {"state": "absent", "output": str(tmp_path), **one}, check=check)
    assert (answer["changed"], answer["files"]) == (True, [str(tmp_path / name)])
    assert (tmp_path / name).exists() == check
    rest = run_module(example_manifests, {"state": "absent", "output": str(tmp_path)})
    assert len(rest["files"]) == (4 if check else 3)
    assert [path.name for path in tmp_path.glob("*.yaml")] == ["mine.yaml"]
    assert run_module(example_manifests, {"state": "absent", "output": str(tmp_path)})["changed"] is False


@pytest.mark.parametrize("check", [True, False])
def test_deploying_set_returns_outcome_of_each_object(run_module, cluster, tmp_path, check):
    given = {"state": "deployed", "set": "nfd-cuda", "timeout": 7, "output": str(tmp_path / "o")}
    answer = run_module(example_manifests, given, check=check)
    [((objects,), options)] = cluster["created"]
    assert (len(objects), options) == (11, {"seconds": 7, "dry_run": check})
    assert answer["changed"] is True
    assert answer["objects"][0] == {"object": "Namespace n", "outcome": "created"}
    assert answer["diff"][-1] == {
        "before": {"Namespace n": "absent", "Pod n/p": "present"},
        "after": {"Namespace n": "present", "Pod n/p": "present"},
    }
    assert (tmp_path / "o").exists() != check


def test_undeploying_set_ignores_custom_files_of_environment(run_module, cluster, monkeypatch):
    monkeypatch.setenv("CUSTOM_AFFINITY", "/nowhere")
    answer = run_module(example_manifests, {"state": "undeployed", "set": "kind"})
    assert cluster["deleted"]
    assert answer["diff"][-1]["after"]["Namespace n"] == "absent"


def test_custom_files_are_read_from_options_and_environment(run_module, tmp_path, monkeypatch):
    (tmp_path / "toleration").write_text("    operator: Exists")
    (tmp_path / "selector").write_text("    zone: a")
    monkeypatch.setenv("CUSTOM_TOLERATION", str(tmp_path / "toleration"))
    given = {**ONE, "output": str(tmp_path), "node_selector_1": str(tmp_path / "selector")}
    after = run_module(example_manifests, given)["diff"][0]["after"]
    assert after.count("- operator: Exists") == 4
    assert after.count("zone: a") == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": "o"}, "any of the following are missing: set, access"),
        ({"state": "deployed"}, "any of the following are missing: set, access"),
        ({"set": "kind"}, "all of the following are missing: output"),
        ({**ONE, "set": "kind", "output": "o"}, "mutually exclusive: set|access"),
        ({"access": "rwo", "output": "o"}, "parameters are required together: access, scope, gpu, cosign"),
        ({**ONE, "gpu": "xpu", "output": "o"}, "value of gpu must be one of: cuda, rocm, got: xpu"),
        ({**ONE, "affinity": "/nowhere/a", "output": "o"}, "cannot read /nowhere/a (CUSTOM_AFFINITY)"),
        ({**ONE, "output": "/proc/o"}, "cannot write /proc/o/rwo-ns-rocm-v3-kind.yaml"),
    ],
)
def test_invalid_input_is_rejected_with_one_sentence(run_module, given, message):
    answer = run_module(example_manifests, given)
    assert message in answer["msg"]
    assert "exception" not in answer
