"""`accelkit cache`: verify, inspect, extract, fill, build and copy kernel cache images."""

import click

from accelkit.kernelcache.commands.build import build
from accelkit.kernelcache.commands.bundle import verify_bundle
from accelkit.kernelcache.commands.copy import copy
from accelkit.kernelcache.commands.extract import extract
from accelkit.kernelcache.commands.fill import fill
from accelkit.kernelcache.commands.inspect import inspect
from accelkit.kernelcache.commands.private_copy import private_copy
from accelkit.kernelcache.commands.verify import verify


@click.group(
    short_help="Kernel-cache images: verify, extract, build.",
    epilog="Exit codes: 0 success, 1 an error or a rejection that the message explains, 2 wrong usage, 3 no verdict on "
    "the image, because a source was unreachable; a later attempt may succeed.",
)
def cache() -> None:
    """Verify, inspect, extract, build and copy images of kernel caches."""


for command in (verify, inspect, extract, fill, build, copy, private_copy, verify_bundle):
    cache.add_command(command)
