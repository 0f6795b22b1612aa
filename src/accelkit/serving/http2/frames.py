"""The library's part of a connection: frames, headers and windows, within the bounds that clients are told."""

from __future__ import annotations

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame

# Requests under way, as many as Go's clients begin before they were told.
MOST_STREAMS: Final = 128
# Clients of Go send a body in frames as long as they may be; each costs the same, however long.
_FRAME_BYTES: Final = 128 * 1024
# What may be on its way to us, of one body and of all. Bodies are read as they come, so nobody waits for more.
_STREAM_WINDOW: Final = 1 << 20
_CONNECTION_WINDOW: Final = 4 << 20
_FIRST_WINDOW: Final = 65_535
# Of all headers of a request, as they are after decoding.
_HEADERS_BYTES: Final = 16 * 1024
_SETTINGS: Final = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
    SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES,
}
# What we send ourselves needs no check.
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
# The library writes each frame for a log that nobody reads, a body with all of its bytes.
Frame.__repr__ = object.__repr__  # type: ignore[method-assign]


def make_frames() -> H2Connection:
    """Return the frames of a new connection, with those that it begins with to be sent."""
    frames = H2Connection(_CONFIGURATION)
    # From the first frame on, and not only when the client has acknowledged them.
    frames.local_settings = Settings(client=False, initial_values=_SETTINGS)
    frames.decoder.max_header_list_size = _HEADERS_BYTES
    frames.max_inbound_frame_size = _FRAME_BYTES
    frames.initiate_connection()
    frames.increment_flow_control_window(_CONNECTION_WINDOW - _FIRST_WINDOW)
    return frames
