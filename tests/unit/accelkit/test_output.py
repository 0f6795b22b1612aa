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


def test_a_table_is_printed_unless_another_format_is_asked_for():
    assert run() == run("-o", "table") == (0, "a table of one line " * 20 + "\n")


def test_json_is_indented():
    code, said = run("-o", "json")
    assert (code, json.loads(said)) == (0, {"name": LONG, "cards": [1, 2]})
    assert said.startswith('{\n  "name"')


def test_yaml_breaks_no_value():
    assert run("--output", "yaml") == (0, f"name: '{LONG}'\ncards:\n- 1\n- 2\n")


def test_another_format_is_refused_with_those_that_there_are():
    code, said = run("-o", "xml")
    assert code == 2
    assert "'xml' is not one of 'table', 'json', 'yaml'" in said


@pytest.mark.parametrize(
    ("options", "lines"), [({}, ["a    1", "bcd  2"]), ({"indent": 1, "gap": 1}, [" a   1", " bcd 2"])]
)
def test_values_stand_below_each_other(options, lines):
    assert [line.plain for line in list_fields([("a", "1"), ("bcd", Text("2"))], **options)] == lines
    assert list_fields([], **options) == []


def test_a_table_does_not_steer_the_terminal_by_what_users_wrote(capsys):
    print_value({}, "table", lambda: Text.assemble("d/p: \x1b[2J\x1b]0;owned\a", ("red\x9b", "red"), "\nnext"))
    assert capsys.readouterr().out == "d/p: \ufffd[2J\ufffd]0;ownedred\ufffd\nnext\n"
