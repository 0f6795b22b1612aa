import pytest
from ansible_collections.accelkit.kubernetes.plugins.module_utils import _inspection, _stages
from ansible_collections.accelkit.kubernetes.plugins.modules import (
    cache,
    example_manifests,
    gcushare_adopt,
    memory_info,
    node_share,
    remediation_undo,
    stage_report,
)

from accelkit.errors import ApiError

# By module: the function that asks the cluster, with where the module finds it, and the module's arguments.
CASES = {
    cache: (cache, "write_cache", {"name": "llama", "namespace": "team"}),
    example_manifests: (example_manifests, "deploy", {"state": "deployed", "set": "kind"}),
    gcushare_adopt: (gcushare_adopt, "adopt_gcushare", {}),
    memory_info: (_inspection, "inspect_cluster", {}),
    node_share: (node_share, "share", {}),
    remediation_undo: (remediation_undo, "undo_all", {}),
    stage_report: (_stages, "verify_cluster", {}),
}


@pytest.mark.parametrize("module", CASES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_api_error_is_returned_as_one_sentence_with_next_step(run_module, stub, module):
    place, name, given = CASES[module]
    stub(place, name, ApiError("nodes is forbidden", status=403, next_step="ask for rights"))
    answer = run_module(module, given)
    assert (answer["failed"], answer["msg"]) == (True, "nodes is forbidden; ask for rights")
