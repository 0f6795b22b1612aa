import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox import binaries
from accelkit.sandbox.binaries import find_binaries, find_cache_dir

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

# Plays `go`: notes each call, prints some lines, waits for a byte in the pipe FAKE_GO_GATE before it ends the verb
# FAKE_GO_GATED, and writes a binary unless FAKE_GO_FAILING is the verb.
FAKE_GO = f"""#!{sys.executable} -IS
import os, sys
environ, arguments = os.environ, sys.argv[1:]
if arguments == ["version"]:
    sys.exit(print(environ.get("FAKE_GO_VERSION", "go version go1.24.0 linux/amd64")))
assert arguments[0] == "-C" and os.path.exists(arguments[1] + "/go.mod"), arguments
assert (environ["CGO_ENABLED"], environ["GOWORK"], environ["GO111MODULE"]) == ("0", "off", "on")
assert os.path.isdir(environ["GOTMPDIR"])
verb, *rest = arguments[2:]
# Like the real one it refuses flags and packages that it does not know.
values = {{rest.index(flag) + 1 for flag in ("-o", "-ldflags") if flag in rest}}
known = {{
    "mod": {{"download"}},
    "list": {{"-mod=readonly", "-deps", "."}},
    "build": {{"-mod=readonly", "-trimpath", "-buildvcs=false", "-v", "-ldflags", "-o", "."}},
}}
assert {{text for index, text in enumerate(rest) if index not in values}} == known[verb], rest
with open(environ["FAKE_GO_CALLS"], "a") as calls:
    print(*arguments[2:], file=calls)
if verb == "list":
    print("a", "b", "c", sep="\\n")
if verb == "build":
    print("a", "b", sep="\\n", flush=True)
    with open(arguments[arguments.index("-o") + 1], "w") as output:
        os.chmod(output.name, 0o755)
if verb == environ.get("FAKE_GO_GATED"):
    os.read(os.open(environ["FAKE_GO_GATE"], os.O_RDONLY), 1)
if verb == environ.get("FAKE_GO_FAILING"):
    print(*(f"line {{number}}" for number in range(100)), "undefined: frobnicate", sep="\\n", file=sys.stderr)
    sys.exit(3)
"""


def make_executables(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def calls(environ):
    log = Path(environ["FAKE_GO_CALLS"])
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def folders(cache_dir):
    return [path.name for path in cache_dir.iterdir() if path.is_dir()]


def refuse_to_say(line):
    pytest.fail(f"said {line!r}")


@pytest.fixture
def cache_dir(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def environ(tmp_path):
    """An environment whose PATH holds nothing but the fake go."""
    go = make_executables(tmp_path / "go", "go") / "go"
    go.write_text(FAKE_GO)
    return {"PATH": str(go.parent), "FAKE_GO_CALLS": str(tmp_path / "calls")}


@pytest.fixture
def gate(tmp_path, environ, monkeypatch):
    """A function that lets the gated verb of the fake go end."""
    monkeypatch.setattr(binaries, "_PROGRESS_EVERY", 0.01)
    pipe = tmp_path / "gate"
    os.mkfifo(pipe)
    environ["FAKE_GO_GATE"] = str(pipe)
    # Open for both, so that neither end waits for the other to open its own.
    descriptor = os.open(pipe, os.O_RDWR)
    yield lambda: os.write(descriptor, b"x")
    os.close(descriptor)


def test_build_embeds_kubernetes_version(cache_dir, environ):
    said = []
    find_binaries(environ, cache_dir=cache_dir, report=said.append)
    (build,) = [line for line in Path(environ["FAKE_GO_CALLS"]).read_text().splitlines() if line.startswith("build")]
    version = re.search(r"Kubernetes (v(\d+)\.(\d+)\.\d+)", said[0])
    # As Kubernetes' own build scripts stamp it: servers and clients tell it from different packages.
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert dict(re.findall(rf"-X {re.escape(package)}\.(\w+)=(\S*)", build)) == {
            "gitVersion": version[1],
            "gitMajor": version[2],
            "gitMinor": version[3],
            "gitTreeState": "clean",
            "gitCommit": "",
        }


@pytest.mark.parametrize(
    ("in_assets", "in_path", "found_in"),
    [
        ((*COMPONENTS, "kubectl"), (*COMPONENTS, "kubectl"), ("assets", "assets")),
        (COMPONENTS, (*COMPONENTS, "kubectl"), ("assets", "path")),
        (COMPONENTS[:2], COMPONENTS, ("path", None)),
    ],
    ids=["assets come before path", "kubectl alone from path", "assets that lack components"],
)
def test_first_folder_with_all_binaries_is_used(tmp_path, cache_dir, in_assets, in_path, found_in):
    assets, path = make_executables(tmp_path / "assets", *in_assets), make_executables(tmp_path / "path", *in_path)
    (assets / "kube-scheduler").touch(mode=0o644)
    said = []
    found = find_binaries(
        {"KUBEBUILDER_ASSETS": str(assets), "PATH": str(path)}, cache_dir=cache_dir, report=said.append
    )
    folder, kubectl = (each and tmp_path / each for each in found_in)
    source = "KUBEBUILDER_ASSETS" if folder == assets else "PATH"
    assert found == binaries.Binaries(*(folder / name for name in COMPONENTS), kubectl and kubectl / "kubectl", source)
    missing = "kube-controller-manager, kube-scheduler"
    lacks = f"KUBEBUILDER_ASSETS={assets} does not contain {missing}: searching PATH and earlier builds"
    assert said == ([] if folder == assets else [lacks])


def test_path_precedes_cache_and_can_span_several_folders(tmp_path, cache_dir, environ):
    find_binaries(environ, cache_dir=cache_dir, report=str)
    first = make_executables(tmp_path / "first", "etcd")
    second = make_executables(tmp_path / "second", *COMPONENTS)

    found = find_binaries({**environ, "PATH": f"{first}:{second}"}, cache_dir=cache_dir, report=refuse_to_say)

    assert (found.source, found.etcd, found.kube_scheduler) == ("PATH", first / "etcd", second / "kube-scheduler")


def test_relative_path_becomes_absolute_and_symlinks_are_not_resolved(tmp_path, cache_dir, monkeypatch):
    folder = make_executables(tmp_path / "path", "controlplane")
    for name in COMPONENTS:
        (folder / name).symlink_to("controlplane")
    monkeypatch.chdir(tmp_path)

    found = find_binaries({"PATH": "path"}, cache_dir=cache_dir, report=refuse_to_say)

    assert found.etcd == folder / "etcd"


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}, {"PATH": "/nonexistent", "KUBEBUILDER_ASSETS": ""}])
def test_missing_go_error_names_required_version(environment, cache_dir):
    with pytest.raises(
        SandboxError, match=r"^cannot find the binaries of the Kubernetes control plane.*, or install Go 1\.24 or newer"
    ):
        find_binaries(environment, cache_dir=cache_dir, report=refuse_to_say)
    assert not cache_dir.exists()


@pytest.mark.parametrize(
    ("version", "seen"),
    [
        ("go version go1.23.12 linux/amd64", "go1.23"),
        ("go version go1.9 linux/amd64", "go1.9"),
        ("gccgo?", "of unknown version"),
    ],
)
def test_outdated_go_is_reported_with_its_version(version, seen, environ, cache_dir):
    with pytest.raises(SandboxError, match=rf"install Go 1\.24 or newer .*/go/go is {re.escape(seen)}\)$"):
        find_binaries({**environ, "FAKE_GO_VERSION": version}, cache_dir=cache_dir, report=refuse_to_say)
    assert calls(environ) == []


@pytest.mark.parametrize("version", ["go version go1.100.1 linux/amd64", "go version devel go1.27-3b2c1 linux/amd64"])
def test_newer_go_versions_are_accepted(version, environ, cache_dir):
    assert find_binaries({**environ, "FAKE_GO_VERSION": version}, cache_dir=cache_dir, report=str).source == "build"


def test_build_creates_symlinks_and_is_reused_from_cache(environ, cache_dir):
    said = []
    built = find_binaries(environ, cache_dir=cache_dir, report=said.append)

    assert built.source == "build"
    assert calls(environ) == ["mod", "list", "build"]
    for name, path in zip(
        (*COMPONENTS, "kubectl"),
        (built.etcd, built.kube_apiserver, built.kube_controller_manager, built.kube_scheduler, built.kubectl),
        strict=True,
    ):
        assert path == built.etcd.parent / name
        assert path.readlink() == Path("controlplane")
    assert folders(cache_dir) == [built.etcd.parent.name]
    assert re.fullmatch(r"[0-9a-f]{16}", built.etcd.parent.name)
    assert "5 to 15 minutes" in said[0]

    cached = find_binaries({**environ, "PATH": ""}, cache_dir=cache_dir, report=refuse_to_say)

    assert (cached.source, cached.etcd, cached.kubectl) == ("cache", built.etcd, built.kubectl)


def test_changed_module_is_built_separately(environ, cache_dir, tmp_path, monkeypatch):
    first = find_binaries(environ, cache_dir=cache_dir, report=str)
    changed = make_executables(tmp_path / "changed")
    for source in ("go.mod", "go.sum", "main.go"):
        (changed / source).write_bytes((binaries._MODULE / source).read_bytes())
    with (changed / "main.go").open("a") as main:
        main.write("// changed\n")
    monkeypatch.setattr(binaries, "_MODULE", changed)

    second = find_binaries(environ, cache_dir=cache_dir, report=str)

    assert second.source == "build"
    assert second.etcd.parent != first.etcd.parent


def test_failed_build_reports_last_log_lines_and_is_discarded(environ, cache_dir):
    with pytest.raises(SandboxError) as caught:
        find_binaries({**environ, "FAKE_GO_FAILING": "build"}, cache_dir=cache_dir, report=str)

    message = str(caught.value)
    log = next(cache_dir.glob("*.log"))
    assert message.startswith("compiling for the Kubernetes control plane exited with status 3. ")
    assert f"The end of {log}:" in message
    assert message.endswith("  line 99\n  undefined: frobnicate")
    assert "line 50" not in message
    assert "line 50" in log.read_text()
    assert folders(cache_dir) == []
    assert find_binaries(environ, cache_dir=cache_dir, report=str).source == "build"


def test_failed_download_stops_build(environ, cache_dir):
    with pytest.raises(SandboxError, match=r"^downloading Go modules .* status 3\."):
        find_binaries({**environ, "FAKE_GO_FAILING": "mod"}, cache_dir=cache_dir, report=str)
    assert calls(environ) == ["mod"]


def test_hanging_command_is_stopped_at_deadline(environ, cache_dir, gate, monkeypatch):
    monkeypatch.setattr(binaries, "_DEADLINE", 0.0)

    with pytest.raises(SandboxError, match=r"^downloading Go modules .* did not exit within 0 minutes\."):
        find_binaries({**environ, "FAKE_GO_GATED": "mod"}, cache_dir=cache_dir, report=str)

    assert folders(cache_dir) == []


def test_progress_counts_compiled_packages(environ, cache_dir, gate):
    said = []

    def report(line):
        said.append(line)
        if line.endswith(" s, 2 of up to 3 packages"):
            gate()

    found = find_binaries({**environ, "FAKE_GO_GATED": "build"}, cache_dir=cache_dir, report=report)

    assert found.source == "build"
    assert any(re.fullmatch(r"compiling: \d+ s, 2 of up to 3 packages", line) for line in said)


def test_interrupted_build_is_discarded(environ, cache_dir, gate):

    def interrupt(line):
        if line.startswith("compiling"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_binaries({**environ, "FAKE_GO_GATED": "build"}, cache_dir=cache_dir, report=interrupt)

    assert folders(cache_dir) == []
    assert find_binaries(environ, cache_dir=cache_dir, report=str).source == "build"


def test_damaged_and_unfinished_builds_are_replaced(environ, cache_dir):
    target = find_binaries(environ, cache_dir=cache_dir, report=str).etcd.parent
    (target / "controlplane").unlink()
    make_executables(cache_dir / f".{target.name}-killed" / "result", "controlplane")

    assert find_binaries(environ, cache_dir=cache_dir, report=str).source == "build"
    assert (target / "controlplane").exists()
    assert folders(cache_dir) == [target.name]


def test_concurrent_calls_build_once(environ, cache_dir, gate):
    def report(line):
        if "waiting" in line:
            gate()

    def find(_):
        return find_binaries({**environ, "FAKE_GO_GATED": "build"}, cache_dir=cache_dir, report=report)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(find, range(2))

    assert sorted((first.source, second.source)) == ["build", "cache"]
    assert first.etcd == second.etcd
    assert calls(environ).count("build") == 1


def test_unwritable_cache_error_names_cache_variable(environ, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(SandboxError, match="ACCELKIT_CACHE"):
        find_binaries(environ, cache_dir=tmp_path / "file" / "cache", report=str)


def test_go_mod_replaces_all_staging_modules_with_one_version():
    go_mod = (binaries._MODULE / "go.mod").read_text()
    (pinned,) = re.findall(r"k8s\.io/kubernetes v1\.(\S+)", go_mod)
    replaced = re.findall(r"(\S+) => (\S+) v0\.(\S+)", go_mod)

    assert {version for _, _, version in replaced} == {pinned}
    assert all(old == new for old, new, _ in replaced)
    assert set(re.findall(r"(\S+) v0\.0\.0 // indirect", go_mod)) <= {old for old, _, _ in replaced}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ACCELKIT_CACHE": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/a"}, "/own/controlplane"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/a"}, "/xdg/accelkit/controlplane"),
        ({"HOME": "/home/a"}, "/home/a/.cache/accelkit/controlplane"),
        ({}, str(Path.home() / ".cache/accelkit/controlplane")),
    ],
)
def test_cache_dir_is_derived_from_environment(environment, expected):
    assert find_cache_dir(environment) == Path(expected)
