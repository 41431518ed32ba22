"""Environment of the benchmarks: Python 3.12 or newer, Tessarr and the libraries beside it.

The script prints the path of its interpreter. ``TESSARR_BENCH_PYTHON`` names the base interpreter;
by default it is the newest one on the path or among the versions of pyenv.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ["zarr>=3.4", "tensorstore>=0.1.86", "zarrista>=0.1", "zarrs>=0.2.3", "numcodecs"]
REMOTE = ["fsspec", "aiohttp", "s3fs"]  # for HTTP and S3


def find_base() -> str:
    """Return an interpreter of at least Python 3.12."""
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
    """Create or update the environment."""
    folder = ROOT / "bench" / ".venv"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([find_base(), "-m", "venv", str(folder)], check=True, stdout=sys.stderr)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *PEERS, *REMOTE], check=True, stdout=sys.stderr)
    subprocess.run([*install, str(ROOT)], check=True, stdout=sys.stderr)
    print(python)


if __name__ == "__main__":
    main()
