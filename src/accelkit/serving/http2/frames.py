"""Configuration of the h2 library, including the limits in the settings frame for frames, headers and flow control."""

from __future__ import annotations

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame

# Maximum number of concurrent requests. Go clients start this number of requests before they receive the settings.
MOST_STREAMS: Final = 128
# Go clients send a body in frames of the maximum size, and the cost of a frame does not depend on its size.
_FRAME_BYTES: Final = 128 * 1024
# Maximum number of bytes in flight for one body and for all bodies. Bodies are read as they arrive, so larger windows
# have no benefit.
_STREAM_WINDOW: Final = 1 << 20
_CONNECTION_WINDOW: Final = 4 << 20
_FIRST_WINDOW: Final = 65_535
# Maximum decoded size of all headers of a request, including 32 bytes for each header.
_HEADERS_BYTES: Final = 8 * 1024
_SETTINGS: Final = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
    SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES,
}
# The response headers of this server require no validation.
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
# The library formats each frame for a debug log, including body data, although the log is not used.
Frame.__repr__ = object.__repr__  # type: ignore[method-assign]


def make_frames() -> H2Connection:
    """Return the h2 object for a new connection, with the initial frames ready to be sent."""
    frames = H2Connection(_CONFIGURATION)
    # The limits apply from the first frame, before the client acknowledges them.
    frames.local_settings = Settings(client=False, initial_values=_SETTINGS)
    frames.decoder.max_header_list_size = _HEADERS_BYTES
    frames.max_inbound_frame_size = _FRAME_BYTES
    frames.initiate_connection()
    frames.increment_flow_control_window(_CONNECTION_WINDOW - _FIRST_WINDOW)
    return frames
