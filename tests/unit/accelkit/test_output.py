import json

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from accelkit.output import list_fields, output_option, print_value

LONG = "sha256:" + "a b " * 100


@click.command()
@output_option
def listing(output):
    print_value({"name": LONG, "cards": [1, 2]}, output, lambda: Text("a table of one line " * 20))


def run(*arguments):
    done = CliRunner().invoke(listing, arguments)
    return done.exit_code, done.output


def test_table_is_default_output_format():
    assert run() == run("-o", "table") == (0, "a table of one line " * 20 + "\n")


def test_json_output_is_indented():
    code, said = run("-o", "json")
    assert (code, json.loads(said)) == (0, {"name": LONG, "cards": [1, 2]})
    assert said.startswith('{\n  "name"')


def test_yaml_output_does_not_wrap_long_values():
    assert run("--output", "yaml") == (0, f"name: '{LONG}'\ncards:\n- 1\n- 2\n")


def test_unsupported_output_format_is_rejected_with_choices():
    code, said = run("-o", "xml")
    assert code == 2
    assert "'xml' is not one of 'table', 'json', 'yaml'" in said


@pytest.mark.parametrize(
    ("options", "lines"), [({}, ["a    1", "bcd  2"]), ({"indent": 1, "gap": 1}, [" a   1", " bcd 2"])]
)
def test_list_fields_aligns_values_in_column(options, lines):
    assert [line.plain for line in list_fields([("a", "1"), ("bcd", Text("2"))], **options)] == lines
    assert list_fields([], **options) == []


def test_table_output_replaces_control_characters_of_users(capsys):
    print_value({}, "table", lambda: Text.assemble("d/p: \x1b[2J\x1b]0;owned\a", ("red\x9b", "red"), "\nnext"))
    assert capsys.readouterr().out == "d/p: \ufffd[2J\ufffd]0;ownedred\ufffd\nnext\n"
