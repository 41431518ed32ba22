"""``python -m tessarr.zarr program.py …``: run a program with Tessarr in place of zarr-python."""

from __future__ import annotations

import os
import runpy
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tessarr.zarr.dropin.install import install

_USAGE = "usage: python -m tessarr.zarr (FILE | COMMAND | -m MODULE) [ARGUMENT …]"


def main() -> object:
    """Run the program that the first argument names, and return its exit code.

    The argument is a file, a command that a package installs, or ``-m`` and a module.
    """
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        return _USAGE
    install()
    # Processes that the program starts import zarr-python itself; so they lose no update either.
    os.environ.setdefault("ZARR_CODEC_PIPELINE__PATH", "tessarr.zarr.CodecPipeline")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return None
    sys.argv = arguments
    commands = entry_points(group="console_scripts", name=arguments[0])
    program = Path(arguments[0])
    if program.is_file() or (not commands and program.exists()):
        sys.path[0] = str(program.resolve().parent)  # as `python program.py` does
        runpy.run_path(sys.argv[0], run_name="__main__")
        return None
    if not commands:
        return (
            f"tessarr.zarr: {arguments[0]!r} is neither a file nor an installed command\n{_USAGE}"
        )
    command: object = next(iter(commands)).load()()
    return command


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[arg-type]
