"""Commands and links of README.md and of some pages name files, options and headings that exist.

Those of accelkit and of ansible-playbook are parsed by these.
"""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from ansible.cli.playbook import PlaybookCLI
from ruamel.yaml import YAML

from accelkit.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "docs/index.md",
    "docs/how-to/installation.md",
    "docs/reference/requests.md",
    "docs/reference/style.md",
    "docs/tutorials/try-on-kind.md",
)
OURS = "accelkit.kubernetes"
# What is not ours, and says itself what it does not know.
FOREIGN = {".", "curl", "python3"}


def read_commands(text):
    """Yield the words of each command in the console blocks; where lines have prompts, the others are output."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines()
        shown = [line[2:] for line in lines if line.startswith("$ ")] or lines
        for line in shown:
            # What a substitution asks is a command too.
            for part in [*re.findall(r"\$\((.*?)\)", line), *re.sub(r"\$\(.*?\)", "IT", line).split("&&")]:
                if words := [word for word in shlex.split(part, comments=True) if word != "&"]:
                    yield words


COMMANDS = sorted({tuple(words) for name in DOCUMENTS for words in read_commands((ROOT / name).read_text())})


def check_accelkit(words):
    command, context, rest = main, click.Context(main), words
    while isinstance(command, click.Group):
        name, *rest = rest
        found = command.get_command(context, name)
        assert found is not None, f"accelkit has no command {name}"
        command, context = found, click.Context(found, parent=context)
    command.make_context(command.name, rest, parent=context)


def check_ansible_playbook(words):
    """Whether it resolves what it names is tested in a plain clone."""
    playbook, *_ = words
    file = ROOT / "playbooks" / f"{playbook.removeprefix(OURS + '.')}.yml" if OURS in playbook else ROOT / playbook
    assert file.is_file(), f"there is no playbook {playbook}"
    cli = PlaybookCLI(["ansible-playbook", *words])
    cli.init_parser()
    options = cli.parser.parse_args(words)
    for inventory in options.inventory or ():
        assert (ROOT / inventory.replace("/mine", "/sample")).is_dir(), f"there is no {inventory}"


def check_ansible_galaxy(words):
    galaxy = YAML(typ="safe").load((ROOT / "galaxy.yml").read_text())
    assert words == ["collection", "install", f"{galaxy['namespace']}.{galaxy['name']}"]


def check_pip(words):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert words[0] == "install"
    for name, extra in (re.fullmatch(r"([\w.]+)\[(\S+)\]", word).groups() for word in words[1:]):
        assert name in (".", project["name"])
        assert extra in project["optional-dependencies"]


def check_make(words):
    targets = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert words[0] in targets, f"make has no target {words[0]}"


def check_cp(words):
    assert (ROOT / words[-2]).is_dir()


def check_kubectl(words):
    """Files are there, and so is every name of ours among the objects that roles and playbooks make."""
    files = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*") if path.is_file()]
    made = " ".join(path.read_text() for path in files)
    for word in words:
        if re.search(r"\.ya?ml$", word):
            assert (ROOT / word).is_file(), f"there is no {word}"
        elif "accelkit" in word and words[words.index(word) - 1] != "clusterrolebinding":
            assert is_made(word.rpartition("/")[2], made), f"nothing makes {word}"


def check_docker(words):
    """A script that a node runs is a file of the checkout."""
    if "<" in words:
        assert (ROOT / words[words.index("<") + 1]).is_file(), f"{words[-1]} is missing"


def check_kind(words):
    """Clusters have the name that inventories/kind expects, and their configuration is a file of the checkout."""
    assert words[:2] in (["create", "cluster"], ["delete", "cluster"])
    assert "--name" not in words
    if "--config" in words:
        assert (ROOT / words[words.index("--config") + 1]).is_file(), f"{words[-1]} is missing"


def is_made(name, made):
    # Some names are put together of an account's and what may be done with it.
    return name in made or name.removesuffix("-user") in made


CHECKS = {
    "accelkit": check_accelkit,
    "ansible-galaxy": check_ansible_galaxy,
    "ansible-playbook": check_ansible_playbook,
    "cp": check_cp,
    "docker": check_docker,
    "kind": check_kind,
    "kubectl": check_kubectl,
    "make": check_make,
    "pip": check_pip,
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_documented_command_names_existing_files_and_options(words):
    program, *rest = words
    if program not in FOREIGN:
        CHECKS[program](rest)


def test_each_project_program_is_documented():
    assert {words[0] for words in COMMANDS} >= CHECKS.keys()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_in_documents_are_valid(document):
    """Also to a heading."""
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", (ROOT / document).read_text()):
        file, _, heading = target.partition("#")
        path = (ROOT / document).parent / file if file else ROOT / document
        assert path.exists(), f"{document} leads to {target}"
        if heading:
            headings = re.findall(r"^#+ (.*)", path.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}, target
