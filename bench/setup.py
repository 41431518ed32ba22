"""Make the bench's own environment: Python 3.12 or newer, Tessarr and its peers.

Prints the path of its interpreter. ``TESSARR_BENCH_PYTHON`` names another base
interpreter than the newest found on the path or among pyenv's versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ["zarr>=3.4", "tensorstore>=0.1.86", "zarrista>=0.1", "zarrs>=0.2.3", "numcodecs"]
FAR = ["fsspec", "aiohttp", "s3fs"]  # to read by HTTP, and of S3


def base() -> str:
    """Give an interpreter of at least Python 3.12."""
    chosen = os.environ.get("TESSARR_BENCH_PYTHON")
    names = [f"python3.{minor}" for minor in (14, 13, 12)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [chosen, *(shutil.which(name) for name in names)]
    candidates += [
        str(path / "bin" / "python") for path in sorted(pyenv.glob("3.1[2-9]*"), reverse=True)
    ]
    test = "import sys; sys.exit(sys.version_info < (3, 12))"
    for candidate in candidates:
        if (
            candidate
            and subprocess.run([candidate, "-c", test], capture_output=True, check=False).returncode
            == 0
        ):
            return candidate
    raise SystemExit("no Python 3.12 or newer: set TESSARR_BENCH_PYTHON")


def main() -> None:
    """Make or update the environment."""
    place = ROOT / "bench" / ".venv"
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([base(), "-m", "venv", str(place)], check=True, stdout=sys.stderr)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *PEERS, *FAR], check=True, stdout=sys.stderr)
    subprocess.run([*install, str(ROOT)], check=True, stdout=sys.stderr)
    print(python)


if __name__ == "__main__":
    main()
