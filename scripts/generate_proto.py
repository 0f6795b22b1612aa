"""Regenerate the messages, stubs and type hints of src/accelkit/node/_proto from the .proto files there.

Run it in the development environment (grpcio-tools and mypy-protobuf), without arguments. The compiler is given
the path inside the package, so that the generated imports are absolute and the file names are our own in protobuf's
process-wide registry.
"""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).resolve().parent.parent / "src"
PACKAGE = SOURCES / "accelkit" / "node" / "_proto"


def main() -> int:
    """Run the compiler; return its exit status."""
    # The compiler looks for the type hint plug-ins on PATH, and they stand beside this interpreter.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    well_known = resources.files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={SOURCES}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    files = [str(path.relative_to(SOURCES)) for path in sorted(PACKAGE.glob("*.proto"))]
    return int(protoc.main(["protoc", f"-I{SOURCES}", f"-I{well_known}", *outputs, *files]))


if __name__ == "__main__":
    sys.exit(main())
