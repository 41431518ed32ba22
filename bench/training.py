"""Samples per second of PyTorch's DataLoader: ``python -m bench.training --help``.

Each library reads the same shuffled samples in batches. A tar file is read from start to end, with
a buffer that shuffles samples, as WebDataset does. The libraries alternate, and the least time of
each counts.
"""

from __future__ import annotations

import argparse
import io
import random
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import tessarr

SAMPLE = (64, 64)
PER_SHARD = 1000
BATCH = 64
BUFFER = 1000


class Batches:
    """Samples of one array; a subclass reads a batch of them."""

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.count = path, count
        self.array: Any = None

    def __len__(self) -> int:
        return self.count

    def __getitems__(self, indices: list[int]) -> Any:
        if self.array is None:  # once in each worker
            self.array = self.open()
        return self.read(indices)

    def open(self) -> Any:
        """Return the array."""
        raise NotImplementedError

    def read(self, indices: list[int]) -> Any:
        """Return the samples as one array."""
        return np.stack([self.array[index] for index in indices])


class Tessarr(Batches):
    """`read_many`."""

    def open(self) -> Any:
        return tessarr.open_array(self.path / "zarr", mode="r")

    def read(self, indices: list[int]) -> Any:
        return self.array.read_many(indices, stack=True)


class ZarrPython(Batches):
    """One outer selection for each batch."""

    def open(self) -> Any:
        import zarr

        return zarr.open_array(self.path / "zarr", mode="r")

    def read(self, indices: list[int]) -> Any:
        return self.array.oindex[indices]


class TensorStore(Batches):
    """One index array for each batch."""

    def open(self) -> Any:
        import tensorstore

        kvstore = {"driver": "file", "path": f"{self.path}/zarr/"}
        return tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()

    def read(self, indices: list[int]) -> Any:
        return self.array[indices].read().result()


class H5py(Batches):
    """One chunk for each sample; h5py has no fast selection of several rows."""

    def open(self) -> Any:
        import h5py

        return h5py.File(self.path / "samples.h5")["samples"]


class TarFiles(IterableDataset):  # type: ignore[misc]
    """Samples of tar files in their order, shuffled by a buffer."""

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.count = path, count

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        buffer: list[Any] = []
        for path in sorted(self.path.glob("*.tar"))[first::step]:
            with tarfile.open(path) as tar:
                for member in tar:
                    file: Any = tar.extractfile(member)
                    buffer.append(np.load(io.BytesIO(file.read())))
                    if len(buffer) >= BUFFER:
                        yield buffer.pop(random.randrange(len(buffer)))
        random.shuffle(buffer)
        yield from buffer


LIBRARIES: dict[str, Callable[[Path, int], Any]] = {
    "tessarr": Tessarr,
    "tensorstore": TensorStore,
    "zarr-python": ZarrPython,
    "h5py": H5py,
    "tar": TarFiles,
}


def write_samples(folder: Path, count: int) -> None:
    """Store the same samples in all formats."""
    import h5py

    generator = np.random.default_rng(0)
    steps = generator.integers(-2, 3, (count, *SAMPLE))
    samples = (np.cumsum(steps, axis=-1) + 128).astype("u1")
    shards = (PER_SHARD, *SAMPLE)
    tessarr.create_array(folder / "zarr", data=samples, chunks=(1, *SAMPLE), shards=shards)
    with h5py.File(folder / "samples.h5", "w") as file:
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        file.create_dataset("samples", data=samples, chunks=(1, *SAMPLE), **options)
    for start in range(0, count, PER_SHARD):
        with tarfile.open(folder / f"{start:08}.tar", "w") as tar:
            for number in range(start, min(start + PER_SHARD, count)):
                content = io.BytesIO()
                np.save(content, samples[number])
                info = tarfile.TarInfo(f"{number:08}.npy")
                info.size = content.tell()
                content.seek(0)
                tar.addfile(info, content)


def wrap(batch: Any) -> torch.Tensor:
    """Return the tensor of a batch."""
    return torch.from_numpy(batch if isinstance(batch, np.ndarray) else np.stack(batch))


def limit_threads(_: int) -> None:
    """Use one thread in each worker."""
    tessarr.configure(threads=1)


def measure_epoch(dataset: Any, workers: int, start: str | None) -> float:
    """Return the seconds of the second epoch; the first one starts the workers."""
    is_stream = isinstance(dataset, IterableDataset)
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=None if is_stream else True,
        num_workers=workers,
        collate_fn=wrap,
        worker_init_fn=limit_threads if workers else None,
        multiprocessing_context=start,
        persistent_workers=workers > 0,
    )
    assert sum(len(batch) for batch in loader) == dataset.count
    begin = time.perf_counter()
    assert sum(len(batch) for batch in loader) == dataset.count
    return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="samples")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        write_samples(Path(folder), options.count)
        print("| workers | " + " | ".join(LIBRARIES) + " |\n|" + "---|" * (len(LIBRARIES) + 1))
        # Without workers last: forked workers cannot use the threads of TensorStore.
        for workers, start in ((2, "fork"), (2, "spawn"), (0, None)):
            least = dict.fromkeys(LIBRARIES, np.inf)
            for _ in range(options.rounds):
                for name, kind in LIBRARIES.items():
                    spent = measure_epoch(kind(Path(folder), options.count), workers, start)
                    least[name] = min(least[name], spent)
            cells = [f"{options.count / spent:,.0f}" for spent in least.values()]
            title = f"{workers}, {start}" if start else "none"
            print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
