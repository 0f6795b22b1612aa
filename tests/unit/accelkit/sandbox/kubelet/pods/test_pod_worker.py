"""One admitted pod, with containers that are simulated."""

from simulated_pods import PODS, Node, read_conditions

from accelkit.sandbox.kubelet.pods.pod_worker import EXIT_ANNOTATION


def count_writes(node, name):
    return sum((each.method, each.path) == ("PATCH", f"{PODS}/{name}/status") for each in node.api.requests)


async def run_another(node):
    """Run another pod, so that what came before it has been seen."""
    node.bind("other")
    await node.phase("other", "Running")


async def test_a_condition_that_another_changed_is_written_again(node):
    node.bind("p")
    written = read_conditions(await node.phase("p", "Running"))
    assert written["Ready"] == "True"
    await run_another(node)
    before = count_writes(node, "p")
    next(each for each in node.find("p")["status"]["conditions"] if each["type"] == "Ready")["status"] = "False"
    await node.until("p", lambda pod: read_conditions(pod["status"]) == written)
    await run_another(node)
    assert count_writes(node, "p") == before + 1


async def test_the_exit_annotation_makes_a_pod_fail(node):
    node.bind("p")
    await node.phase("p", "Running")
    node.annotate("p", EXIT_ANNOTATION, "1")
    status = await node.phase("p", "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


async def test_a_pod_that_vanished_gets_no_further_status(node):
    node.bind("p")
    await node.phase("p", "Running")
    before = count_writes(node, "p")
    del node.api.objects[f"{PODS}/p"]
    await run_another(node)
    assert [pod.metadata.name for pod in node.pods.list_active()] == ["other"]
    assert count_writes(node, "p") == before


async def test_a_node_that_ends_leaves_the_status_of_its_pods(tmp_path):
    node = Node(tmp_path)
    async with node.running():
        node.bind("p")
        status = await node.phase("p", "Running")
    assert node.find("p")["status"] == status
