"""The folders that a server may touch: paths from outside are resolved and kept inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchad.errors import InputError


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders that were named at start, with links resolved."""

    roots: tuple[Path, ...]
    writable: bool = False
    """Whether new files may be written there."""

    @classmethod
    def of(cls, given: Sequence[Path], *, writable: bool = False) -> Folders:
        """Take folders as a user names them; each must exist."""
        for folder in given:
            if not folder.is_dir():
                raise InputError(f"--allow {str(folder)!r} is no folder; name one that exists")
        return cls(tuple(dict.fromkeys(folder.resolve() for folder in given)), writable)

    def existing(self, text: str) -> Path:
        """Return the path of a file or folder that may be read; a relative one is looked up in every folder."""
        inside = [path for path in self._candidates(text) if self._holds(path)]
        if not inside:
            raise self._refusal(text)
        for path in inside:
            if path.exists():
                return path
        raise InputError(f"there is no file {text!r}; list_files lists those that may be read")

    def new(self, text: str) -> Path:
        """Return the path of a file that may be written: it is not there yet."""
        if not self.writable:
            raise InputError("nothing may be written; start `patchad mcp` with --write to allow it")
        inside = [path for path in self._candidates(text) if self._holds(path)]
        if not inside:
            raise self._refusal(text)
        if inside[0].exists():
            raise InputError(f"{text!r} is there already; give the path of a new file")
        return inside[0]

    def check(self, path: Path) -> Path:
        """Return where a file found in a folder really lies; a link that leads out is refused."""
        real = path.resolve()
        if not self._holds(real):
            raise InputError(f"{str(path)!r} leads out of the folders that may be read; name another file")
        return real

    def _candidates(self, text: str) -> list[Path]:
        if not text or "\0" in text:
            raise InputError(f"{text!r} is no path; give the path of a file")
        return [(root / text).resolve() for root in self.roots]  # an absolute path stays what it is

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _refusal(self, text: str) -> InputError:
        if not self.roots:
            return InputError(
                f"{text!r} may not be read: no folder is allowed; start `patchad mcp` with --allow FOLDER"
            )
        allowed = ", ".join(repr(str(root)) for root in self.roots)
        return InputError(f"{text!r} lies outside the folders that may be read, {allowed}; name a file inside them")
