from ansible_collections.accelkit.kubernetes.plugins.modules import object_prune

from accelkit.install.pruning import ObjectKey, Pruned


def test_pruned_objects_are_returned_by_name(run_module, stub):
    pruned = Pruned([ObjectKey("Secret", "a", "former")], ["a", "kube-system"], ["c"])
    asked = stub(object_prune, "prune", pruned)
    wanted = {"kind": "Secret", "metadata": {"name": "s", "namespace": "a"}, "data": {"x": "eA=="}}
    answer = run_module(
        object_prune, {"component": "c", "keep": [wanted], "timeout": 7, "namespaces": ["b"]}, check=True
    )
    keep = frozenset({ObjectKey("Secret", "a", "s")})
    told = {"component": "c", "keep": keep, "timeout_seconds": 7, "namespaces": ["b"], "check": True}
    assert asked == [((), told)]
    assert answer["changed"]
    assert answer["namespaces"] == ["a", "kube-system"]
    assert answer["components"] == ["c"]
    assert answer["deleted"] == ["Secret a/former"]
    assert answer["diff"] == {"before": "Secret a/former\n", "after": ""}
