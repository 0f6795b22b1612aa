import pytest

from accelkit.enablement.partitioning.desired_nodes import DesiredNode, build_desired_nodes
from accelkit.errors import ConfigurationError
from accelkit.model.keys import POOL_LABEL, ROLE_LABEL

KNOWN = ["a", "b", "c"]


def test_nodes_get_desired_labels_and_taints():
    desired_nodes = build_desired_nodes(
        KNOWN, taints=["y/z", "x/y"], tainted=["a"], roles={"training": ["a", "b"]}, pools={"big": ["b"]}
    )
    assert desired_nodes == {
        "a": DesiredNode({ROLE_LABEL: "training"}, ("x/y", "y/z")),
        "b": DesiredNode({ROLE_LABEL: "training", POOL_LABEL: "big"}),
        "c": DesiredNode(),
    }


def test_node_with_two_roles_is_rejected():
    with pytest.raises(ConfigurationError, match=r"TwoRoles: node a has both .*=inference and .*=training"):
        build_desired_nodes(KNOWN, roles={"training": ["a"], "inference": ["a"]})
    assert build_desired_nodes(KNOWN, roles={"infra": ["a", "a"]})["a"].labels == {ROLE_LABEL: "infra"}


@pytest.mark.parametrize("given", [{"tainted": ["d"]}, {"roles": {"infra": ["d"]}}, {"pools": {"p": ["d"]}}])
def test_unknown_node_is_rejected(given):
    with pytest.raises(ConfigurationError, match="UnknownNode: cannot find node d; correct the name"):
        build_desired_nodes(KNOWN, taints=["x/y"], **given)
