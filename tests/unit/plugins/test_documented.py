"""Actions take their arguments from the documentation of their modules, and accelkit understands them."""

from __future__ import annotations

from dataclasses import fields

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.accelkit.kubernetes.plugins.modules import node_image, scheduler_config
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._documented import argument_spec

from accelkit.scheduler.node_pod.objects import PodImage
from accelkit.scheduler.switch.spec import Spec, decode_spec

EXTENDER = {"url_prefix": "https://10.0.0.1:32766"}
# What the action handles itself.
OF_THE_ACTION = {"state", "kubeconfig", "pod"}


def test_an_option_keeps_what_a_specification_has_of_it():
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
    assert argument_spec(documentation) == {
        "one": {"type": "list", "elements": "dict", "required": True, "options": {"two": two}}
    }


def test_defaults_of_suboptions_are_filled_in():
    validated = ArgumentSpecValidator(argument_spec(scheduler_config.DOCUMENTATION)).validate({"extender": EXTENDER})
    assert not validated.errors.errors
    assert validated.validated_parameters["launch"]["kind"] == "static_pod"
    assert validated.validated_parameters["extender"]["weight"] == 1
    assert validated.validated_parameters["credentials"] is None


def test_a_value_outside_its_choices_is_refused():
    spec = argument_spec(node_image.DOCUMENTATION)
    errors = ArgumentSpecValidator(spec).validate({"state": "gone"}).errors.messages
    assert any("value of state must be one of: present, absent, got: gone" in each for each in errors)
    assert any("repository" in each for each in errors)


def test_scheduler_config_takes_what_accelkit_understands_with_the_same_defaults():
    spec = argument_spec(scheduler_config.DOCUMENTATION)
    given = ArgumentSpecValidator(spec).validate({"extender": EXTENDER}).validated_parameters
    assert set(spec) == {*Spec.__struct_fields__, *OF_THE_ACTION}
    decoded = decode_spec({name: value for name, value in given.items() if name not in OF_THE_ACTION})
    assert decoded == decode_spec({"extender": EXTENDER})
    assert set(spec["pod"]["options"]) == {field.name for field in fields(PodImage)}
