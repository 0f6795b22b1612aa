import pytest

from accelkit.enablement.openshift.detection import OpenShift, find_openshift

OTHERS = ["apps", "security.example.com"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], OpenShift(constraints=False, machines=False, autoscaling=False)),
        (["security.openshift.io"], OpenShift(constraints=True, machines=False, autoscaling=False)),
        (
            ["security.openshift.io", "machine.openshift.io", "autoscaling.openshift.io"],
            OpenShift(constraints=True, machines=True, autoscaling=True),
        ),
    ],
)
async def test_openshift_features_are_detected_by_api_group(api, groups, expected):
    api.documents["/apis"] = {"kind": "APIGroupList", "groups": [{"name": name} for name in OTHERS + groups]}
    assert await find_openshift(api) == expected
