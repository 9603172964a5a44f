"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Write files so that all of them appear whole, or none does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole({Path(folder) / "a": b"1", Path(folder) / "b": b"2"})
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['a', 'b']
    """
    taken = next((path for path in contents if path.is_dir()), None)
    if taken is not None:
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(taken))
    staged: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            staged[path] = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            staged[path].chmod(0o666 & ~_umask())
        for path, temporary in staged.items():
            temporary.replace(path)
    except BaseException:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
