import asyncio

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from accelkit.cli import main
from accelkit.examples import command
from accelkit.examples.example import SETS

KIND = ("rwo", "namespace", "rocm", "v3", "kind")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DEBUG", "CUSTOM_AFFINITY", "CUSTOM_TOLERATION", *(f"CUSTOM_NODE_SELECTOR_{n}" for n in (1, 2, 3))):
        monkeypatch.delenv(name, raising=False)


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["examples", *arguments], env=environ)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (KIND, "output/rwo-ns-rocm-v3-kind.yaml"),
        (("rox", "cluster", "cuda", "v2", "nfd"), "output/rox-cl-cuda-v2-nfd.yaml"),
        (("rox", "ns", "rocm", "v3"), "output/rox-ns-rocm-v3.yaml"),
        (("rox", "cl", "rocm", "v3", "none"), "output/rox-cl-rocm-v3.yaml"),
        (("rox", "cl", "rocm", "v3", ""), "output/rox-cl-rocm-v3.yaml"),
    ],
)
def test_generate_writes_file_and_prints_only_its_path(tmp_path, arguments, path):
    done = run("generate", *arguments)
    assert (done.exit_code, done.output) == (0, f"{path}\n")
    assert next(iter(YAML(typ="safe").load_all((tmp_path / path).read_text())))["kind"] == "Namespace"


def test_generate_and_clean_use_given_output_folder(tmp_path):
    assert run("generate", *KIND, "--output", "a/b").output == "a/b/rwo-ns-rocm-v3-kind.yaml\n"
    assert (tmp_path / "a/b/rwo-ns-rocm-v3-kind.yaml").is_file()
    run("generate", *KIND)
    (tmp_path / "output/mine.yaml").touch()
    assert run("clean").output == "deleted output/rwo-ns-rocm-v3-kind.yaml\n"
    assert run("clean").output == "no examples found in output\n"
    assert (tmp_path / "output/mine.yaml").exists()


@pytest.mark.parametrize("options", [{"DEBUG": "true"}, {"DEBUG": "1"}, {"DEBUG": "yes please"}, {"flag": "--debug"}])
def test_debug_prints_file_before_its_path(options):
    flag = [options.pop("flag")] if "flag" in options else []
    lines = run("generate", *KIND, *flag, **options).output.splitlines()
    assert lines[:2] == ["---", "apiVersion: v1"]
    assert lines[-1] == "output/rwo-ns-rocm-v3-kind.yaml"


@pytest.mark.parametrize("value", ["", "false", "0", "no"])
def test_debug_is_disabled_by_false_value(value):
    assert run("generate", *KIND, DEBUG=value).output == "output/rwo-ns-rocm-v3-kind.yaml\n"


@pytest.mark.parametrize(
    ("place", "good"),
    [
        (0, "'rox', 'rwo'"),
        (1, "'namespace', 'ns', 'cluster', 'cl'"),
        (2, "'cuda', 'rocm'"),
        (3, "'v2', 'v3'"),
        (4, "'none', 'kind', 'nfd'"),
    ],
)
def test_invalid_argument_is_rejected_with_valid_values(tmp_path, place, good):
    words = [*KIND]
    words[place] = "other"
    done = run("generate", *words)
    name = ("ACCESS", "SCOPE", "GPU", "COSIGN", "[ENV]")[place]
    assert done.exit_code == 2
    assert f"Error: Invalid value for '{name}': 'other' is not one of {good}." in done.output
    assert not (tmp_path / "output").exists()


def test_custom_files_are_read_from_environment_variables(tmp_path):
    for name, text in {"affinity": "   podAffinity: {}", "toleration": "  key: own\n  operator: Exists"}.items():
        (tmp_path / name).write_text(text)
    names = {"CUSTOM_AFFINITY": "affinity", "CUSTOM_TOLERATION": "toleration"}
    for number in (1, 2, 3):
        (tmp_path / f"selector-{number}").write_text(f"    own: 'n{number}'\n")
        names[f"CUSTOM_NODE_SELECTOR_{number}"] = f"selector-{number}"
    assert run("generate", *KIND, **names).exit_code == 0
    _, cache, *workloads = YAML(typ="safe").load_all((tmp_path / "output/rwo-ns-rocm-v3-kind.yaml").read_text())
    placed = {"affinity": {"podAffinity": {}}, "tolerations": [{"key": "own", "operator": "Exists"}]}
    assert cache["spec"]["podTemplate"]["spec"] == placed
    for number, each in enumerate(workloads, start=1):
        spec = each["spec"]["template"]["spec"]
        assert placed.items() <= spec.items()
        assert spec["nodeSelector"] == {"own": f"n{number}"}


def test_invalid_custom_file_is_reported_in_one_sentence_without_output(tmp_path):
    (tmp_path / "own").write_text("nodeAffinty: {}")
    done = run("generate", *KIND, CUSTOM_AFFINITY="own")
    assert done.exit_code == 1
    assert done.output.startswith("Error: own (CUSTOM_AFFINITY) is not a valid affinity of a pod: ")
    assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "output").exists()


@pytest.fixture
def stored(monkeypatch, api):
    """A cluster that the commands speak to."""
    monkeypatch.setattr(command, "_with_cluster", lambda _kubeconfig, act: asyncio.run(act(api)))
    return api


@pytest.mark.parametrize("name", SETS)
def test_deploy_creates_set_and_undeploy_deletes_set(stored, name):
    done = run("deploy", name)
    assert done.exit_code == 0
    assert f"created Namespace {SETS[name][0].namespaces[0]}" in done.output.splitlines()
    caches = {path.rsplit("/", 1)[1] for path in stored.objects if "gkmcaches/" in path}
    assert caches == {example.cache_name for example in SETS[name]}
    gone = run("undeploy", name)
    assert stored.objects == {}
    assert f"deleted Namespace {SETS[name][0].namespaces[0]}" in gone.output.splitlines()


def test_deploy_writes_files_to_given_output_folder(stored, tmp_path):
    assert run("deploy", "nfd-cuda", "--output", "o").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == [
        "rwo-cl-cuda-v3-nfd.yaml",
        "rwo-ns-cuda-v2-nfd.yaml",
    ]


def test_deploy_applies_custom_files(stored, tmp_path):
    (tmp_path / "own").write_text('"zone": "a"')
    run("deploy", "nfd-rocm", CUSTOM_NODE_SELECTOR_1="own")
    first = next(value for path, value in stored.objects.items() if "gkm-test-ds-1" in path)
    assert first["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


@pytest.mark.parametrize("verb", ["deploy", "undeploy"])
def test_unknown_set_is_rejected_with_list_of_sets(verb):
    done = run(verb, "all")
    assert done.exit_code == 2
    assert "'all' is not one of 'kind', 'nfd-cuda', 'nfd-rocm'" in done.output


def test_example_sets_match_those_of_gkm():
    files = {name: [example.file_name.removesuffix(".yaml") for example in each] for name, each in SETS.items()}
    assert files == {
        "kind": ["rwo-ns-rocm-v2-kind", "rwo-cl-rocm-v3-kind", "rox-ns-rocm-v3-kind", "rox-cl-rocm-v2-kind"],
        "nfd-cuda": ["rwo-ns-cuda-v2-nfd", "rwo-cl-cuda-v3-nfd"],
        "nfd-rocm": ["rwo-ns-rocm-v2-nfd", "rwo-cl-rocm-v3-nfd"],
    }


def test_deploy_without_cluster_reports_missing_configuration(tmp_path):
    done = run("deploy", "kind", HOME=str(tmp_path), KUBECONFIG="", KUBERNETES_SERVICE_HOST="")
    assert (done.exit_code, done.output.partition(",")[0]) == (
        1,
        "Error: no Kubernetes cluster is configured: KUBECONFIG",
    )
