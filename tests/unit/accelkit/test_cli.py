import subprocess
import sys

import pytest
from click.testing import CliRunner

from accelkit.cli import main

COMMANDS = ["audit", "cache", "config-manager", "examples", "extender", "inspect", "node-agent", "plugins", "sandbox"]


def test_help_lists_each_command_with_complete_summary():
    result = CliRunner().invoke(main, ["--help"])
    listed = [line.split(maxsplit=1) for line in result.output.partition("Commands:\n")[2].splitlines() if line.strip()]
    named = {words[0]: words[1] for words in listed if words[0] in COMMANDS}
    assert sorted(named) == COMMANDS
    assert not [text for text in named.values() if text.endswith("...")]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_accepts_help_option(name):
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_unknown_command_is_usage_error():
    result = CliRunner().invoke(main, ["nothing"])
    assert result.exit_code == 2
    assert "No such command" in result.output


def test_importing_cli_does_not_import_libraries_of_commands():
    script = "import sys, accelkit.cli; sys.exit(any(name in sys.modules for name in ('grpc', 'aiohttp', 'sigstore')))"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
