"""Actions take their arguments from the documentation of their modules."""

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.accelkit.kubernetes.plugins.modules import node_image, scheduler_config
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._documented import read_argument_spec

EXTENDER = {"url_prefix": "https://10.0.0.1:32766"}


def test_argument_spec_is_built_from_documentation():
    documentation = """
    options:
      one:
        description: First.
        type: list
        elements: dict
        required: true
        suboptions:
          two: {description: Second., type: str, choices: [a, b], default: a}
    """
    two = {"type": "str", "choices": ["a", "b"], "default": "a"}
    assert read_argument_spec(documentation) == {
        "one": {"type": "list", "elements": "dict", "required": True, "options": {"two": two}}
    }


def test_defaults_of_suboptions_are_applied():
    validated = ArgumentSpecValidator(read_argument_spec(scheduler_config.DOCUMENTATION)).validate(
        {"extender": EXTENDER}
    )
    assert not validated.errors.errors
    assert validated.validated_parameters["launch"]["kind"] == "static_pod"
    assert validated.validated_parameters["extender"]["weight"] == 1
    assert validated.validated_parameters["credentials"] is None


def test_invalid_choice_is_rejected():
    spec = read_argument_spec(node_image.DOCUMENTATION)
    errors = ArgumentSpecValidator(spec).validate({"state": "gone"}).errors.messages
    assert any("value of state must be one of: present, absent, got: gone" in each for each in errors)
    assert any("repository" in each for each in errors)
