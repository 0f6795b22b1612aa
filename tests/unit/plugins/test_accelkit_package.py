"""The Python package beside the collection: absent, broken, or of another version."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import dialect, second_scheduler_configuration
from ansible_collections.accelkit.kubernetes.plugins.module_utils import _package
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import COLLECTION_VERSION, find_problem
from ansible_collections.accelkit.kubernetes.plugins.modules import cache_info, memory_info

MENDS = f"-m pip install 'accelkit=={COLLECTION_VERSION}'`"


@pytest.fixture
def installed(monkeypatch):
    """Say which version is installed; None for none."""

    def install(found):
        def version(name):
            if found is None:
                raise PackageNotFoundError(name)
            return found

        monkeypatch.setattr(_package, "version", version)

    return install


def test_matching_package_version_has_no_problem():
    assert find_problem(None) is None


@pytest.mark.parametrize(
    ("found", "failure", "said"),
    [
        (None, ImportError("No module named 'accelkit'"), "has no Python package accelkit; "),
        (
            "9.9.9",
            None,
            f"accelkit, but the collection accelkit.kubernetes has version {COLLECTION_VERSION}; ",
        ),
        # It is the version that is mended, whatever the older one lacks.
        ("0.0.1", ImportError("cannot import name 'new'"), "has version 0.0.1 of the Python package accelkit"),
        (
            COLLECTION_VERSION,
            "Traceback (most recent call last):\n  File …\nModuleNotFoundError: No module named 'msgspec'\n",
            "cannot import the Python package accelkit (ModuleNotFoundError: No module named 'msgspec'); ",
        ),
    ],
)
def test_package_problem_is_one_sentence_with_pip_command(installed, found, failure, said):
    installed(found)
    problem = find_problem(failure)
    assert "\n" not in problem
    assert problem.startswith(f"{sys.executable} ")
    assert problem.endswith(f"install it by `{sys.executable} {MENDS}")
    assert said in problem


def test_interpreter_path_with_space_is_quoted(installed, monkeypatch):
    installed(None)
    monkeypatch.setattr(sys, "executable", "/opt/my venv/bin/python")
    assert f"`'/opt/my venv/bin/python' {MENDS}" in find_problem(None)


@pytest.mark.parametrize(("module", "arguments"), [(memory_info, {}), (cache_info, {"image": "a.example/b"})])
def test_module_fails_early_when_package_version_differs(run_module, installed, module, arguments):
    installed("9.9.9")
    answer = run_module(module, arguments)
    assert (answer["failed"], answer["msg"]) == (True, find_problem(None))


def test_filters_fail_when_package_version_differs(installed):
    installed("9.9.9")
    with pytest.raises(AnsibleFilterError, match=r"has version 9\.9\.9"):
        dialect.dialect("native")
    with pytest.raises(AnsibleFilterError, match=r"has version 9\.9\.9"):
        second_scheduler_configuration.configuration({})


def test_host_without_package_fails_with_path_of_interpreter(play, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = tmp_path / "bare" / "bin" / "python"
    tasks = [
        {"accelkit.kubernetes.memory_info": {}, "ignore_errors": True},
        {"accelkit.kubernetes.cache_info": {"image": "a.example/b"}, "ignore_errors": True},
    ]
    done = play(tasks, "-e", f"ansible_python_interpreter={bare}")
    told = [line for line in done.stdout.splitlines() if f"{bare} has no Python package accelkit; " in line]
    assert len([line for line in told if '"msg"' in line]) == len(tasks), done.stdout
    assert all(f"`{bare} {MENDS}" in line for line in told)


def test_action_plugin_fails_when_package_version_on_controller_differs(play, tmp_path):
    """By a package of another version before ours, as a controller has it that was updated by half."""
    other = tmp_path / "other" / "accelkit-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: accelkit\nVersion: 9.9.9\n")
    done = play([{"accelkit.kubernetes.scheduler_config": {}}], python_path=str(other.parent))
    assert done.returncode == 2
    assert f"{sys.executable} has version 9.9.9 of the Python package accelkit" in done.stdout + done.stderr
