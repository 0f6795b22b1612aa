import ast
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from accelkit.scheduler.arguments import build_argument_spec

ROOT = Path(__file__).parents[3]
# By the role's name, where the rest of its name is not the argument's.
OF_ROLE = {
    "extender_url": ("extender", "url_prefix"),
    "extender_server_name": ("extender", "server_name"),
    "extender_weight": ("extender", "weight"),
    "extender_timeout": ("extender", "http_timeout"),
    "extender_ignorable": ("extender", "ignorable"),
    "managed_resources": ("extender", "managed_resources"),
    "image": ("pod", "image"),
    "image_pull_secrets": ("pod", "pull_secrets"),
    "host_folders": ("pod", "host_folders"),
}
# The module gets `pod` or not, and former resources as part of the managed ones. The keeper is the role's own.
ROLES_OWN = {"former_resources", "reach", "keeper", "keeper_client_secret", "keeper_namespace", "keeper_version"}


def load(text):
    return YAML(typ="safe", pure=True).load(text)


def documentation():
    """The options of the module's DOCUMENTATION."""
    tree = ast.parse((ROOT / "plugins/modules/scheduler_config.py").read_text())
    [text] = [
        node.value.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "DOCUMENTATION"
    ]
    return load(text)["options"]


def bare(options, nested):
    """Return options without what only one of both sides says: prose, and what Ansible keeps out of its log."""
    found = {}
    for name, option in options.items():
        facts = {key: option[key] for key in ("type", "elements", "default", "required") if key in option}
        facts["choices"] = sorted(option.get("choices", ()))
        found[name] = {**facts, **({"options": bare(option[nested], nested)} if nested in option else {})}
    return found


def test_documentation_matches_argument_spec():
    assert bare(documentation(), "suboptions") == bare(build_argument_spec(), "options")


def test_private_key_is_excluded_from_ansible_log():
    credentials = build_argument_spec()["credentials"]
    assert credentials["no_log"] is True
    assert credentials["options"]["key"]["no_log"] is True
    assert build_argument_spec()["pod"]["options"]["pull_secrets"]["no_log"] is False


def role_arguments():
    specification = load((ROOT / "roles/scheduler/meta/argument_specs.yml").read_text())
    return {
        name.removeprefix("scheduler_"): option
        for name, option in specification["argument_specs"]["main"]["options"].items()
    }


@pytest.mark.parametrize("name", sorted(role_arguments().keys() - ROLES_OWN))
def test_role_arguments_match_module_arguments(name):
    parent, key = OF_ROLE.get(name, (None, name))
    argument = build_argument_spec()[parent]["options"][key] if parent else build_argument_spec()[key]
    given = role_arguments()[name]
    assert [given.get(fact) for fact in ("type", "elements")] == [argument.get(fact) for fact in ("type", "elements")]
    assert sorted(given.get("choices", ())) == sorted(argument.get("choices", ()))
    if "default" in argument:
        assert given["default"] == argument["default"]
