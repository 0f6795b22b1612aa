import asyncio
import gc
import re
import socket

import pytest
from http_service import ServedApi


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.filterwarnings("always::ResourceWarning")
def test_connection_closed_before_accept_is_released(tmp_path, recwarn, turns):
    async def leave():
        async with ServedApi().served(tmp_path) as kubeconfig:
            port = int(re.search(r"127\.0\.0\.1:(\d+)", kubeconfig.read_text())[1])
            connection = socket.create_connection(("127.0.0.1", port))
            for _ in range(turns):
                await asyncio.sleep(0)
        connection.close()

    asyncio.run(leave())
    gc.collect()
    assert [each.message for each in recwarn.list if each.category is ResourceWarning] == []
