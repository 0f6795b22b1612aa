import pytest
from click.testing import CliRunner
from support.commands import record_options

from accelkit.node import command


@pytest.mark.parametrize(
    ("given", "unit_bytes", "factor"),
    [
        ((), None, 1.0),
        (("--former-unit", "0.1"), 2**30 // 10, 1.0),
        (("--memory-factor", "1.5"), None, 1.5),
    ],
)
def test_former_unit_and_memory_factor_are_passed_to_agent(monkeypatch, tmp_path, given, unit_bytes, factor):
    options = record_options(monkeypatch, command)
    done = CliRunner().invoke(command.node_agent, ["--node-name", "n", "--host-root", str(tmp_path), *given])
    assert done.exit_code == 0, done.output
    assert [(each.former_unit_bytes, each.memory_factor) for each in options] == [(unit_bytes, factor)]


@pytest.mark.parametrize("given", ["0.9", "17", "nan", "x"])
def test_invalid_memory_factor_is_refused(tmp_path, given):
    arguments = ["--node-name", "n", "--host-root", str(tmp_path), "--memory-factor", given]
    done = CliRunner().invoke(command.node_agent, arguments)
    assert done.exit_code == 2
    assert "'--memory-factor'" in done.output


def test_an_invalid_former_unit_is_refused(tmp_path):
    arguments = ["--node-name", "n", "--host-root", str(tmp_path), "--former-unit", "7"]
    done = CliRunner().invoke(command.node_agent, arguments)
    assert "'7' is not a unit of memory" in str(done.exception)


def test_dialect_of_another_device_plugin_is_refused_with_supported_dialects(tmp_path):
    arguments = ["--node-name", "n", "--host-root", str(tmp_path), "--dialect", "gas"]
    done = CliRunner().invoke(command.node_agent, arguments)
    assert done.exit_code == 2
    output = " ".join(done.output.split())
    assert "the dialect gas is served by another system's device plugin" in output
    assert "choose one of aliyun, gcushare, kubegpu, native" in output
