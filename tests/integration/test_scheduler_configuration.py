"""The real kube-scheduler reads what is written for it, strictly; the real kubeadm writes what the unit tests edit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from accelkit.sandbox.binaries import find_binaries, find_cache_dir
from accelkit.sandbox.certificates import Authority, encode_kubeconfig
from accelkit.scheduler.configuration.command_line import parse
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.versions import parse_minor
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, TlsCredentials

sys.path.append(str(Path(__file__).parents[1] / "unit" / "accelkit" / "scheduler"))
from odd_manifests import CONFIGURATION, with_mount, with_options
from scheduler_manifests import kubeadm_manifest

pytestmark = pytest.mark.integration

FLAGS = ("--profiling=false", "--kube-api-qps=80", "--leader-elect-lease-duration=21s")


@pytest.fixture(scope="module")
def scheduler():
    found = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print)
    done = subprocess.run([found.kube_scheduler, "--version"], capture_output=True, text=True, timeout=60, check=True)
    return found.kube_scheduler, done.stdout.split()[-1]


def read_back(binary, configuration, folder):
    """Return what kube-scheduler makes of a configuration, or its complaint."""
    out = folder / "read-back.yaml"
    command = [binary, f"--config={configuration}", f"--write-config-to={out}", "--secure-port=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return YAML(typ="safe", pure=True).load(out.read_text()) if out.exists() else done.stderr


def written(tmp_path, version, *, existing):
    """Write on this host what would be written on a control-plane host; return the path of the configuration."""
    authority = Authority("extender")
    client = authority.issue_client("system:kube-scheduler")
    credentials = tmp_path / "scheduler.conf"
    credentials.write_bytes(encode_kubeconfig("https://127.0.0.1:1", authority.certificate, "scheduler", client))
    manifest = with_options(kubeadm_manifest(parse_minor(version)), *FLAGS)
    manifest = manifest.replace("/etc/kubernetes/scheduler.conf", str(credentials))
    files = {}
    if existing:
        manifest = with_mount(with_options(manifest, "--config=/etc/own.yaml"), "/opt/own.yaml", "/etc/own.yaml")
        text = CONFIGURATION.replace("/etc/kubernetes/scheduler.conf", str(credentials))
        files["/opt/own.yaml"] = text.encode()
    wanted = DesiredSettings(
        extender=ExtenderEntry(url_prefix="https://10.96.0.7:32766", tls_config={"serverName": "extender.svc"}),
        kubernetes_version=version,
        credentials=TlsCredentials(ca=authority.certificate, certificate=client.certificate, key=client.key),
        folder=str(tmp_path / "accelkit"),
    )
    plan = StaticPod().plan(manifest, None, files.get, wanted)
    for path, file in plan.files.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(file.content)
    (option,) = parse(["kube-scheduler", plan.marker]).options
    return Path(option.value)


@pytest.mark.parametrize("existing", [False, True])
def test_kube_scheduler_accepts_written_configuration(scheduler, tmp_path, existing):
    binary, version = scheduler
    document = read_back(binary, written(tmp_path, version, existing=existing), tmp_path)
    assert isinstance(document, dict), document
    ours = document["extenders"][-1]
    assert (ours["urlPrefix"], ours["enableHTTPS"], ours["httpTimeout"]) == ("https://10.96.0.7:32766", True, "10s")
    assert ours["tlsConfig"]["serverName"] == "extender.svc"
    if existing:
        assert [each["schedulerName"] for each in document["profiles"]] == ["default-scheduler", "packed"]
        assert document["extenders"][0]["urlPrefix"] == "http://10.0.0.9:8000"
    else:
        assert document["enableProfiling"] is False
        assert document["clientConnection"]["qps"] == 80
        assert document["leaderElection"]["leaseDuration"] == "21s"


def test_kube_scheduler_rejects_misspelled_field(scheduler, tmp_path):
    binary, version = scheduler
    path = written(tmp_path, version, existing=False)
    path.write_text(path.read_text().replace("enableHTTPS", "enableHttps"))
    complaint = read_back(binary, path, tmp_path)
    assert "unknown field" in complaint
    assert "extenders[0].enableHttps" in complaint


@pytest.fixture
def kubeadm():
    path = Path(os.environ.get("KUBEBUILDER_ASSETS", ""), "kubeadm")
    if not path.is_file() or os.geteuid():
        pytest.skip("needs kubeadm in KUBEBUILDER_ASSETS, and root, since kubeadm changes its root folder")
    return path


def made_by(kubeadm, version, root):
    """Return the manifest that kubeadm writes for a version."""
    command = [kubeadm, "init", "phase", "control-plane", "scheduler", "--kubernetes-version", version]
    subprocess.run([*command, "--rootfs", root], capture_output=True, timeout=60, check=True)
    return (root / "etc/kubernetes/manifests/kube-scheduler.yaml").read_text()


def test_kubeadm_writes_same_manifest_as_unit_tests_expect(kubeadm, tmp_path):
    done = subprocess.run([kubeadm, "version", "-o", "short"], capture_output=True, text=True, timeout=60, check=True)
    version = done.stdout.strip()
    assert made_by(kubeadm, version, tmp_path) == kubeadm_manifest(parse_minor(version), int(version.split(".")[2]))
    # The older version that it still sets up differs in the image alone: kubeadm writes its own form for both.
    older = f"v1.{parse_minor(version) - 1}.0"
    assert made_by(kubeadm, older, tmp_path) == kubeadm_manifest(parse_minor(version)).replace(
        f"v{version[1:5]}.0", older
    )
