"""parquet, feather and arrow files; the pandas index they may hold is kept where it is of times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patchad.data.readers.packed import check_unpacked
from patchad.errors import InputError, MissingExtraError, reason_of

PIECE_VALUES = 2_000_000
"""Values of a parquet file that are read at a time."""
_RATIO = 1000  # repeated values take next to nothing in these formats


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Read a parquet file as a pandas frame; only these columns, where some are named."""
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            check_unpacked(8 * file.metadata.num_rows * file.metadata.num_columns, path, _RATIO)
            return _to_pandas(file.read(None if columns is None else list(columns)))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise _refusal(error, "a parquet") from None


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a parquet file."""
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        return tuple(parquet.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _refusal(error, "a parquet") from None


def parquet_shape(path: Path) -> tuple[int, int]:
    """Return how many rows and columns a parquet file has, without reading them."""
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return file.metadata.num_rows, file.metadata.num_columns
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise _refusal(error, "a parquet") from None


def read_pieces(path: Path) -> Iterator[Any]:
    """Read a parquet file piece by piece, each a pandas frame of so many values: RAM stays bounded."""
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            rows = max(PIECE_VALUES // max(file.metadata.num_columns, 1), 1)
            for batch in file.iter_batches(batch_size=rows):
                yield _to_pandas(pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise _refusal(error, "a parquet") from None


def read_arrow(path: Path) -> Any:
    """Read a feather or arrow file, a file or a stream of record batches, as a pandas frame."""
    pa = _pyarrow()
    from pyarrow import feather, ipc

    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start in (b"ARROW1", b"FEA1" + start[4:]):
            table = feather.read_table(path, memory_map=False)
        else:
            with path.open("rb") as file:
                table = ipc.open_stream(file).read_all()
        check_unpacked(8 * table.num_rows * table.num_columns, path, _RATIO)
        table.validate(full=True)
        return _to_pandas(table)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise _refusal(error, "an arrow or feather") from None


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    return pa


def _refusal(error: Exception, kind: str) -> Exception:
    """Return what to raise for what pyarrow says of a damaged file; a file that cannot be opened is another matter."""
    if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno is not None):
        return error
    return InputError(f"not {kind} file ({reason_of(error)}); copy or write it again")


def _to_pandas(table: Any) -> Any:
    """Make a frame of an arrow table; what it says about a pandas index is only believed where columns bear it out."""
    import pyarrow as pa

    index = [name for name in _index_columns(table.schema.metadata) if table.schema.names.count(name) == 1]
    times = [name for name in index if pa.types.is_timestamp(table.schema.field(name).type)]
    counters = [name for name in index if re.fullmatch(r"__index_level_\d+__", name) and name not in times]
    frame = table.drop_columns(counters).replace_schema_metadata(None).to_pandas()
    return frame.set_index(times[0]) if len(times) == len(index) == 1 else frame


def _index_columns(metadata: Any) -> list[str]:
    """Return the columns that pandas says are its index."""
    try:
        said = json.loads((metadata or {}).get(b"pandas", b"{}"))
        found = said.get("index_columns", [])
    except (ValueError, AttributeError, RecursionError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
