"""The kubelet's part of the device plugin API: the registration service, and the device stream of each plugin.

Like a real kubelet, the server removes the sockets in its folder when it starts, and plugins must detect the removal.
The server connects to a plugin during the plugin's Register call. It accepts messages up to gRPC's default limit of
4,194,304 bytes, and disconnects a plugin that sends a larger message.

If a plugin's stream ends after a newer registration of the same resource, the newer registration is also removed. The
reason is that a real kubelet finds the client by resource when a stream ends. Therefore, a plugin that registers again
must close its earlier stream first, or register a second time.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import grpc

from accelkit.errors import DevicePluginError, SandboxError
from accelkit.node._proto import deviceplugin_pb2 as pb
from accelkit.node._proto.deviceplugin_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import is_extended_resource_name
from accelkit.sandbox.kubelet.devices.plugin_connection import PluginConnection
from accelkit.sandbox.run_folder import SOCKET_PATH_BYTES

__all__ = ["API_VERSION", "PluginServer", "check_socket_path"]

API_VERSION = "v1beta1"

log = logging.getLogger(__name__)

_SOCKET = "kubelet.sock"
_STOP_SECONDS = 1.0


class PluginServer:
    """The registration service of one node, and the connections to its plugins.

    Args:
        folder: the node's `var/lib/kubelet/device-plugins`.
        manager: the device manager, which receives the plugins and their devices.
        on_change: a callback that is called in the event loop when the node's resources may have changed.
    """

    def __init__(self, folder: Path, manager: DeviceManager, *, on_change: Callable[[], None]) -> None:
        self._folder = folder
        self._manager = manager
        self._on_change = on_change
        self._server: grpc.aio.Server | None = None
        self._current: dict[str, PluginConnection] = {}
        self._streams: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Remove existing sockets from the folder, and listen on `kubelet.sock`."""
        socket = self._folder / _SOCKET
        check_socket_path(socket)
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        self._server = grpc.aio.server()
        add_RegistrationServicer_to_server(_Registration(self), self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening, and disconnect all plugins."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    async def register(self, request: pb.RegisterRequest) -> None:
        """Connect to the plugin that sent the request, and process its device lists.

        Raises:
            DevicePluginError: the request is invalid, or the plugin does not respond on its socket.
        """
        resource = request.resource_name
        if request.version != API_VERSION:
            raise DevicePluginError(
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{API_VERSION}"]'
            )
        if not is_extended_resource_name(resource):
            raise DevicePluginError(f'the ResourceName "{resource}" is invalid')
        connection = PluginConnection(resource, self._folder / request.endpoint)
        self._current[resource] = connection
        try:
            options = await connection.connect()
        except DevicePluginError:
            self._current.pop(resource, None)
            await connection.close()
            raise
        self._manager.connect_plugin(resource, options, connection)
        stream = asyncio.create_task(self._follow(connection), name=f"plugin {resource}")
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)

    async def _follow(self, connection: PluginConnection) -> None:
        resource = connection.resource
        try:
            async for devices in connection.follow_devices():
                self._manager.update_devices(resource, devices)
                self._on_change()
        except DevicePluginError as exc:
            log.warning("plugin stream ended resource=%s reason=%s", resource, exc)
            # The current connection may be newer than the connection that was closed. See the module docstring.
            current = self._current.pop(resource, None)
            if current is not None:
                await current.close()
                self._manager.disconnect_plugin(resource)
                self._on_change()
        finally:
            await connection.close()


class _Registration(RegistrationServicer):
    def __init__(self, plugins: PluginServer) -> None:
        self._plugins = plugins

    async def Register(  # noqa: N802 - the name in the interface
        self,
        request: pb.RegisterRequest,
        context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty],
    ) -> pb.Empty:
        try:
            await self._plugins.register(request)
        except DevicePluginError as exc:
            log.warning("registration refused resource=%s reason=%s", request.resource_name, exc)
            await _refuse(context, exc)
        return pb.Empty()


async def _refuse(context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty], exc: DevicePluginError) -> NoReturn:
    # Go's server returns UNKNOWN for an error without a code.
    await context.abort(grpc.StatusCode.UNKNOWN, str(exc))
    raise AssertionError


def check_socket_path(path: Path) -> None:
    """Raise SandboxError if the path is too long for a UNIX socket."""
    if len(str(path).encode()) > SOCKET_PATH_BYTES:
        raise SandboxError(
            f"cannot create the socket {path}: the path is longer than {SOCKET_PATH_BYTES} bytes",
            next_step="move the sandbox to a folder with a shorter path",
        )
