"""How long repairs took is believed as far as a replica has seen them."""

import msgspec
import pytest
from node_api import NODES, NodeApi
from test_reading_and_writing import DRAIN, WELL, Site

from accelkit.model.keys import REMEDIATION_ANNOTATION
from accelkit.remediation.repair_times import RepairTimes


@pytest.mark.parametrize(
    ("moved", "counted"),
    [(0.0, 1), (3600.0, 1), (2 * 86400.0, 0), (-1e6, 0), (1e308, 0), (-1e308, 0)],
    ids=["as it was", "another leader's", "days ago", "in the future", "ages ago", "in ages"],
)
async def test_forged_timestamp_does_not_corrupt_repair_duration_metric(moved, counted):
    api = NodeApi()
    api.put_node("n")
    site = Site(api)
    api.fail_card("n", "GPU-0", **DRAIN)
    await site.run_pass(3)
    annotations = api.objects[f"{NODES}/n"]["metadata"]["annotations"]
    record = msgspec.json.decode(annotations[REMEDIATION_ANNOTATION])
    record["cards"]["GPU-0"]["since"] -= moved
    annotations[REMEDIATION_ANNOTATION] = msgspec.json.encode(record).decode()
    api.fail_card("n", "GPU-0", **WELL)
    await site.run_pass(3, after=601)
    assert REMEDIATION_ANNOTATION not in api.objects[f"{NODES}/n"]["metadata"]["annotations"]
    shown = dict(line.split(" ") for line in site.metrics.render().decode().splitlines() if line[0] != "#")
    name = "accelkit_remediation_repair_duration_seconds"
    assert float(shown[f"{name}_count"]) == counted
    assert float(shown[f"{name}_sum"]) == pytest.approx(counted * (1222 + moved), abs=1e-3)


def test_repair_times_of_nodes_without_failed_cards_are_discarded():
    times = RepairTimes()
    times.observe("n", {"a", "b"}, 0.0)
    times.observe("n", {"a"}, 50.0)
    times.keep({"n"})
    assert times.is_plausible("n", "a", 86500.0, 100.0)
    assert not times.is_plausible("n", "a", 86501.0, 100.0)
    assert not times.is_plausible("n", "b", 86401.0, 100.0)
    times.keep(set())
    assert not times.is_plausible("n", "a", 86500.0, 100.0)
