import json
import os
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).resolve().parents[3]

# `ansible_collections.accelkit.kubernetes` is this checkout, for imports in this process. Under ansible-test, which
# imports this very file by such a name, it is there already.
if not __name__.startswith("ansible_collections."):
    for _name, _paths in {"": [], ".accelkit": [], ".accelkit.kubernetes": [str(ROOT)]}.items():
        _package = types.ModuleType(f"ansible_collections{_name}")
        _package.__path__ = _paths
        sys.modules.setdefault(_package.__name__, _package)


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """A folder in which accelkit.kubernetes is this checkout's plugins."""
    folder = tmp_path_factory.mktemp("collections")
    home = folder / "ansible_collections" / "accelkit" / "kubernetes"
    home.mkdir(parents=True)
    for name in ("plugins", "meta"):
        (home / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def run_module(capsys):
    """Run a module's main with these arguments; return its JSON answer."""

    def run(module, arguments, *, check=False):
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def kubeconfig(monkeypatch, tmp_path):
    """Modules that are not told of a cluster find one, whose API server is never asked."""
    config = tmp_path / "kubeconfig"
    config.write_text(
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: http://127.0.0.1:9}}]\n"
        "current-context: c\n"
    )
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(config))


@pytest.fixture
def warnings(monkeypatch):
    """The warnings of modules."""
    found = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: found.append(text))
    return found


@pytest.fixture
def stub(monkeypatch, kubeconfig):
    """Have a function that asks a cluster return or raise this; return what it is given: positional and named."""

    def replace(module, name, result):
        calls = []

        async def act(_api, *given, **named):
            calls.append((given, named))
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(module, name, act)
        return calls

    return replace


@pytest.fixture
def play(collections, tmp_path):
    """Run tasks on this machine with ansible-playbook; return the results, one per task."""

    def run(tasks, *options, python_path=""):
        playbook = tmp_path / "play.json"
        playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            # What a test puts before the rest, then where ansible-test has its ansible-core.
            "PYTHONPATH": os.pathsep.join(filter(None, (python_path, os.environ.get("PYTHONPATH", "")))),
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        command = [sys.executable, "-m", "ansible.cli.playbook", str(playbook), "-v", *options]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )

    return run


class CacheBed:
    """A registry with the image of a cache, and arguments of modules that lead there."""

    def __init__(self, registry, caches, misbehaviour, sigstore, folder):
        self.registry, self.caches, self.misbehaviour = registry, caches, misbehaviour
        self.host = registry.host
        self.key = sigstore.key()
        self.other_key = sigstore.key()
        self.source = caches.cache_folder(folder / "source")
        self.base = folder / "caches"
        self.image = caches.publish(self.host, self.source)
        self.name = f"{self.host}/team/cache:v1"
        self.policy = str(caches.write_policy(folder, self.host, self.key))

    def arguments(self, **more):
        return {"registry_plain_http": [self.host], **more}

    def verifying(self, **more):
        return self.arguments(image=self.name, policy=self.policy, **more)

    def extracting(self, **more):
        return self.arguments(image=self.name, folder=str(self.base), **more)

    def sign(self, key=None, **more):
        return self.caches.sign(self.host, self.image, key or self.key, **more)

    def attest(self):
        self.caches.attest(self.host, self.image, self.key)

    def fails_with(self, status):
        self.registry.on("GET", ".*/manifests/.*", self.misbehaviour.failing(status, retry_after="0"))

    def demands(self, user, password):
        self.registry.on("*", ".*", self.misbehaviour.basic_auth(user, password))

    def pushed(self, repository, reference):
        return self.registry.honest.manifest(repository, reference)


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that need the tests' registry where it is not: it is not shipped with the collection."""
    if find_spec("registries") is None:
        left_out = [item for item in items if "cache_bed" in item.fixturenames]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def cache_bed(tmp_path):
    """A registry with a kernel cache."""
    # Not at the top: where the collection is all there is, they are absent.
    from private_sigstore import PrivateSigstore  # noqa: PLC0415
    from registries import caches, hostile, misbehaviour  # noqa: PLC0415

    with hostile.HostileRegistry() as registry:
        yield CacheBed(registry, caches, misbehaviour, PrivateSigstore.new(), tmp_path)
