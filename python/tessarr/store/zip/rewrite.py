"""Remove the garbage of a Zip file, and repair a file without a directory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tessarr.errors import DataError
from tessarr.store.zip import format as zip_format
from tessarr.store.zip.directory import build_directory
from tessarr.store.zip.entries import EntryTable
from tessarr.store.zip.file import ObjectFile, PathFile
from tessarr.store.zip.format import Entry
from tessarr.store.zip.records import Values, decode_kind

if TYPE_CHECKING:
    from tessarr.store.zip.file import File

__all__ = ["remove_garbage", "repair"]

_COPY_BYTES: Final = 1 << 22


def remove_garbage(file: File, start: int, table: EntryTable, *, durable: bool) -> bool:
    """Move entries together and write the directory after them.

    A local file is rewritten and replaced in one step. In other files entries move towards the
    beginning.

    Parameters
    ----------
    file
        The file, which has no other reader or writer.
    start
        The new offset of the first entry.
    table
        The entries in the order of the file.
    durable
        Whether to wait for the disk before the new file replaces the old one.

    Returns
    -------
    bool
        Whether the function removed the garbage; if False, the file is unchanged.
    """
    if isinstance(file, PathFile):
        try:
            fresh = file.create_sibling()
        except OSError:  # the folder rejects new files
            return False
        try:
            _copy(file, 0, fresh, 0, start)
            _apply_moves(file, fresh, _plan_moves(file, start, table))
            file.replace_with(fresh, durable=durable)
        except OSError:  # a full disk
            fresh.discard()
            return False
        except BaseException:
            fresh.discard()
            raise
        return True
    if not isinstance(file, ObjectFile) or not file.is_movable():
        return False
    plan = _plan_moves(file, start, table)
    if any(run.target > run.begin for run in plan.runs):  # a move would overwrite the next entry
        return False
    file.truncate(_apply_moves(file, file, plan))
    file.flush(durable=durable)
    return True


class _Run(NamedTuple):
    """Adjacent bytes that one copy moves."""

    begin: int
    length: int
    target: int
    header: bytes  # a new local header before the bytes


class _Plan(NamedTuple):
    runs: list[_Run]
    table: EntryTable  # with the new offsets
    end: int


def _plan_moves(file: File, start: int, table: EntryTable) -> _Plan:
    """Return the moves that leave no gaps between entries."""
    fields = table.fields.copy()
    begins = fields["offset"].copy()
    lengths = fields["limit"] - begins
    headers: dict[int, bytes] = {}
    header_lengths = np.zeros_like(begins)
    # Without gap and descriptor, the entry is all bytes up to its limit.
    unclear = (table.gaps() > 0) | (fields["flags"] & zip_format.DESCRIBED != 0)
    for row in np.flatnonzero(unclear).tolist():
        entry = table[row]
        raw = file.read(entry.offset, zip_format.LOCAL.size + len(entry.name))
        data = zip_format.find_data(entry, raw)
        if entry.flags & zip_format.DESCRIBED:
            # The header gets the sizes, which may follow the bytes in one of several forms.
            entry = entry._replace(flags=entry.flags & ~zip_format.DESCRIBED)
            headers[row] = zip_format.build_local_header(entry)
            header_lengths[row] = len(headers[row])
            begins[row] = data
        lengths[row] = data + entry.packed - begins[row]
    fields["flags"] &= ~zip_format.DESCRIBED
    ends = start + np.cumsum(header_lengths + lengths)
    fields["offset"] = ends - header_lengths - lengths
    fields["limit"] = ends
    joined = (begins[1:] == (begins + lengths)[:-1]) & (header_lengths[1:] == 0)
    runs = []
    bounds = [0, *(np.flatnonzero(~joined) + 1).tolist(), len(table)]
    for first, after in pairwise(bounds if len(table) else []):
        header = headers.get(first, b"")
        target = int(fields["offset"][first])
        length = int(lengths[first:after].sum())
        runs.append(_Run(int(begins[first]), length, target, header))
    return _Plan(runs, EntryTable(table.names, fields), int(ends[-1]) if len(table) else start)


def _apply_moves(source: File, target: File, plan: _Plan) -> int:
    """Move entries and write the directory; return the size of the file."""
    for run in plan.runs:
        position = run.target + len(run.header)
        if source is target and position > run.begin:  # the new header reaches into the bytes
            target.write(run.target, run.header + source.read(run.begin, run.length))
            continue
        target.write(run.target, run.header)
        if source is not target or position != run.begin:
            _copy(source, run.begin, target, position, run.length)
    directory = build_directory(plan.table, plan.end)
    target.write(plan.end, directory)
    return plan.end + len(directory)


def _copy(source: File, begin: int, target: File, target_offset: int, count: int) -> None:
    for done in range(0, count, _COPY_BYTES):
        piece = source.read(begin + done, min(_COPY_BYTES, count - done))
        target.write(target_offset + done, piece)


def repair(path: str) -> int:
    """Write the missing directory of a file; return the number of values.

    The repair reads entries from the beginning. A directory between them lists the values at
    that time. The repair removes the bytes after the last complete entry.
    """
    file = PathFile(str(Path(path).absolute()), "r+")
    try:
        size = file.size()
        entries, end, complete = _scan(file, size)
        if not end:
            raise DataError(f"{path!r} does not begin as a Zip file: it is left as it is")
        if not complete or end < size:
            directory = build_directory(EntryTable.from_entries(entries), end)
            file.write(end, directory)
            file.truncate(end + len(directory))
            file.flush(durable=True)
    finally:
        file.close()
    return len(entries)


def _scan(file: File, size: int) -> tuple[list[Entry], int, bool]:
    """Return the entries, the end of the last complete record, and whether it is a directory."""
    values = Values()
    offset = 0
    complete = False
    while offset + 4 <= size:
        if file.read(offset, 4) == zip_format.LOCAL_MARK:
            read = _read_entry(file, offset, size)
            if read is None:
                break
            entry, kind, data = read
            values.add(entry, kind, data)
            offset = entry.limit
            complete = False
        else:
            keys, after = _read_directory(file, offset, size)
            if after is None:
                break
            values.retain(keys)
            offset = after
            complete = True
    return values.list_entries(), offset, complete


def _read_entry(file: File, offset: int, size: int) -> tuple[Entry, bytes, bytes] | None:
    """Return the entry at an offset, its kind and its data; None if it is not complete."""
    if offset + zip_format.LOCAL.size > size:
        return None
    fields = zip_format.LOCAL.unpack(file.read(offset, zip_format.LOCAL.size))
    _, _, flags, method, modified, date, crc, packed, length, name_length, extra_length = fields
    begin = offset + zip_format.LOCAL.size + name_length + extra_length
    if begin > size or flags & zip_format.DESCRIBED:
        return None
    rest = file.read(offset + zip_format.LOCAL.size, name_length + extra_length)
    length, packed = zip_format.apply_zip64(rest[name_length:], length, packed)
    time = date << 16 | modified
    limit = begin + packed
    name = rest[:name_length]
    entry = Entry(
        name, offset, limit, method, crc, packed, length, flags, time, zip_format.PERMISSIONS
    )
    if limit > size:
        return None
    try:
        zip_format.check_size(entry)
        data = zip_format.decompress(file.read(begin, packed), entry)
    except DataError:
        return None
    return entry, decode_kind(rest[name_length:]), data


def _read_directory(file: File, offset: int, size: int) -> tuple[list[str], int | None]:
    """Return the keys of the directory at an offset and its end; None if it is not complete."""
    keys: list[str] = []
    while offset + 4 <= size:
        mark = file.read(offset, 4)
        layout = zip_format.LAYOUTS.get(mark)
        if layout is None or offset + layout.size > size:
            break
        fields = layout.unpack(file.read(offset, layout.size))
        offset += layout.size
        if mark == zip_format.RECORD_MARK:
            name_length, more = fields[10], fields[10] + fields[11] + fields[12]
            if offset + more > size:
                break
            text = "utf-8" if fields[3] & zip_format.UTF8 else "cp437"
            keys.append(file.read(offset, name_length).decode(text, "replace"))
            offset += more
        elif mark == zip_format.END_MARK:
            after = offset + fields[7]
            return keys, after if after <= size else None
    return keys, None
