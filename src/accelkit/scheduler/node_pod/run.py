"""Runner of the switch in a pod on a control-plane node, for users with a kubeconfig but without host access."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.kube.objects import delete_and_wait, get_if_present
from accelkit.kube.ownership import build_selector, find_namespaces
from accelkit.kube.paths import build_collection_path, build_object_path, build_pod_path
from accelkit.kube.pods import LOG_BYTES, read_progress, wait_until_ended
from accelkit.scheduler.arguments import PodImage, Spec
from accelkit.scheduler.node_pod.objects import NAMESPACE, build_objects, build_pod_name, compute_deadline_seconds

log = logging.getLogger(__name__)

_DELETE_SECONDS: Final = 60.0


class _Container(msgspec.Struct):
    image: str


class _PodSpec(msgspec.Struct):
    containers: list[_Container]


class _Template(msgspec.Struct):
    spec: _PodSpec


class _AgentSpec(msgspec.Struct):
    template: _Template


class _Agent(msgspec.Struct):
    spec: _AgentSpec


class _Agents(msgspec.Struct):
    items: list[_Agent]


_result = msgspec.json.Decoder(dict[str, Any])
_agents = msgspec.json.Decoder(_Agents)


def run_in_pod(connection: Connection, action: str, spec: Spec, source: PodImage) -> dict[str, Any]:
    """Run `accelkit config-manager ACTION` on the node in `spec`; return the command's result.

    The pod and its objects are always deleted afterwards. Objects that a killed run has left are deleted first.

    Raises:
        ApiError: the API server rejected one of the objects.
        ConfigurationError: the node is missing, or the image is missing and no node agent is installed.
        ServiceError: the pod did not start, did not terminate within the time limit, or reported an error.
    """
    if not spec.node:
        raise ConfigurationError(
            "cannot create a pod without the name of its node",
            next_step="set scheduler_node, or accelkit_node_name in the inventory",
        )
    result = asyncio.run(_run(connection, action, spec, source))
    if result.get("failed"):
        raise ServiceError(str(result.get("msg")))
    return result


def compare_without_pod(connection: Connection, spec: Spec, *, desired: bool) -> dict[str, Any]:
    """Return whether kube-scheduler would be switched, based only on reads, because check mode must not write.

    Args:
        connection: the API server.
        spec: the specification, which contains the node.
        desired: whether kube-scheduler should call the extender.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    if spec.launch.kind != "static_pod":
        problem = (
            f"kube-scheduler's configuration on {spec.node} is unknown to the API server, and check mode starts no pod"
        )
        return _summarize(problem, changed=False)
    calls = asyncio.run(_reads_our_folder(connection, spec))
    problem = f"check mode starts no pod on {spec.node}, so the changes to its files are not reported"
    return _summarize(problem, changed=calls is not desired)


async def _reads_our_folder(connection: Connection, spec: Spec) -> bool:
    async with ApiClient(connection) as api:
        return _names_our_folder(await get_if_present(api, _mirror_path(spec)) or b"", spec)


def _summarize(problem: str, *, changed: bool) -> dict[str, Any]:
    return {"changed": changed, "restored": False, "diff": [], "problems": [problem]}


async def _run(connection: Connection, action: str, spec: Spec, source: PodImage) -> dict[str, Any]:
    name = build_pod_name(spec.node)
    async with ApiClient(connection) as api:
        image = source.image or await _find_installed_image(api)
        if not image and action in {"remove", "compare-removal"}:
            return _summarize(await _explain_nothing_to_run(api, spec), changed=False)
        if not image:
            raise ConfigurationError(
                "cannot create a pod without an image", next_step="set scheduler_image, or accelkit_image"
            )
        desired = build_objects(action, spec, msgspec.structs.replace(source, image=image))
        if await get_if_present(api, build_pod_path(NAMESPACE, name)) is not None:
            await _wait_for_other_run(api, build_pod_path(NAMESPACE, name), spec, image)
        await _delete(api, [build_object_path(kind, name) for kind, _ in reversed(desired)])
        try:
            for kind, body in desired:
                await api.post(kind, body)
            await _wait_until_ended(api, build_pod_path(NAMESPACE, name), spec, image)
            return await _read_result(api, build_pod_path(NAMESPACE, name))
        finally:
            await _delete(api, [build_object_path(kind, name) for kind, _ in reversed(desired)])


async def _wait_for_other_run(api: ApiClient, path: str, spec: Spec, image: str) -> None:
    """Wait until the pod of another run has terminated, because a switch must not be interrupted."""
    try:
        await _wait_until_ended(api, path, spec, image)
    except ServiceError as exc:
        # The pod has never started, or its time limit has expired.
        log.warning("deleting the pod of another run node=%s: %s", spec.node, exc)
    except ApiError as exc:
        if not exc.not_found:
            raise


async def _find_installed_image(api: ApiClient) -> str | None:
    """Return the image of the node agents; None if no node agents are installed.

    The image runs as root on the control plane, so its name must not be read from an object that tenants can write.
    """
    for namespace in sorted(await find_namespaces(api)):
        agents = build_collection_path("apps/v1", "daemonsets", namespace)
        query = {"labelSelector": build_selector("node-agent")}
        found = _agents.decode(await api.get(agents, query=query))
        for agent in found.items:
            return agent.spec.template.spec.containers[0].image
    return None


async def _explain_nothing_to_run(api: ApiClient, spec: Spec) -> str:
    """Return the message for a cluster without accelkit, in which no image is known.

    Raises:
        ConfigurationError: kube-scheduler still runs with an accelkit configuration.
    """
    if _names_our_folder(await api.get(_mirror_path(spec)), spec):
        raise ConfigurationError(
            f"cannot remove accelkit's configuration from kube-scheduler on {spec.node}: no image is known",
            next_step="set scheduler_image, or accelkit_image",
        )
    return f"the files of {spec.node} were not checked: no image is known; its kube-scheduler runs without accelkit"


def _mirror_path(spec: Spec) -> str:
    return build_pod_path(NAMESPACE, f"kube-scheduler-{spec.node}")


def _names_our_folder(pod: bytes, spec: Spec) -> bool:
    return f"={spec.folder}/".encode() in pod


async def _wait_until_ended(api: ApiClient, path: str, spec: Spec, image: str) -> None:
    seconds = compute_deadline_seconds(spec)
    progress = await wait_until_ended(api, path, time.monotonic() + seconds)
    if progress.has_no_image:
        raise ServiceError(
            f"the pod on {spec.node} cannot pull its image {image}: {progress.message}",
            next_step="load it onto the nodes, or push it to a registry that they can reach (role images)",
        )
    if not progress.ended:
        raise ServiceError(
            f"the pod on {spec.node} did not end within {seconds} s: {progress.message}",
            next_step=f"run `kubectl describe node {spec.node}`, and then the playbook again",
        )


async def _read_result(api: ApiClient, path: str) -> dict[str, Any]:
    # The same stream also contains log lines.
    log = (await api.get(f"{path}/log", query={"container": "config-manager", "limitBytes": str(LOG_BYTES)})).decode(
        errors="replace"
    )
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            return _result.decode(line)
    progress = await read_progress(api, path)
    raise ServiceError(
        f"the pod ended without a result ({progress.message}): {' '.join(log.split())[-500:] or 'it printed nothing'}",
        next_step="check that its image has the same version of accelkit",
    )


async def _delete(api: ApiClient, paths: list[str]) -> None:
    """Delete objects and wait until they are deleted: first the pod, and then the other objects."""
    deadline = time.monotonic() + _DELETE_SECONDS
    for path in paths:
        try:
            await delete_and_wait(api, path, deadline)
        except TimeoutError as exc:
            raise ServiceError(
                f"{path.rpartition('/')[2]} in {NAMESPACE} still exists after {_DELETE_SECONDS:.0f} s",
                next_step=f"run `kubectl -n {NAMESPACE} describe pod`, and then the playbook again",
            ) from exc
