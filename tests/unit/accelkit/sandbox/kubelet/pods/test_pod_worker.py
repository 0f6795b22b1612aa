"""One admitted pod, with containers that are simulated."""

from simulated_pods import PODS, Node, read_conditions

from accelkit.sandbox.kubelet.pods.pod_worker import EXIT_ANNOTATION


def count_writes(node, name):
    return sum((each.method, each.path) == ("PATCH", f"{PODS}/{name}/status") for each in node.api.requests)


async def run_another(node):
    """Run another pod, so that what came before it has been seen."""
    node.bind("other")
    await node.phase("other", "Running")


async def test_condition_changed_by_another_client_is_rewritten(node):
    node.bind("p")
    written = read_conditions(await node.phase("p", "Running"))
    assert written["Ready"] == "True"
    await run_another(node)
    before = count_writes(node, "p")
    next(each for each in node.find("p")["status"]["conditions"] if each["type"] == "Ready")["status"] = "False"
    await node.until("p", lambda pod: read_conditions(pod["status"]) == written)
    await run_another(node)
    assert count_writes(node, "p") == before + 1


async def test_nonzero_exit_annotation_fails_pod(node):
    node.bind("p")
    await node.phase("p", "Running")
    node.annotate("p", EXIT_ANNOTATION, "1")
    status = await node.phase("p", "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


async def test_removed_pod_receives_no_status_update(node):
    node.bind("p")
    await node.phase("p", "Running")
    before = count_writes(node, "p")
    del node.api.objects[f"{PODS}/p"]
    await run_another(node)
    assert [pod.metadata.name for pod in node.pods.list_active()] == ["other"]
    assert count_writes(node, "p") == before


async def test_kubelet_shutdown_does_not_change_pod_status(tmp_path):
    node = Node(tmp_path)
    async with node.running():
        node.bind("p")
        status = await node.phase("p", "Running")
    assert node.find("p")["status"] == status
