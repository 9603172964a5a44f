"""The models of a fleet: one for all series, or one for each, by its name."""

from __future__ import annotations

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchad.detectors.base import Detector
from patchad.detectors.registry import load
from patchad.errors import InputError, ModelFileError
from patchad.fleet.names import file_names
from patchad.fleet.runner import Runner, Shared

SUFFIX = ".safetensors"
KEPT = 8
"""Models that a worker keeps in RAM."""
_loaded: OrderedDict[str, Detector] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Model:
    """A model file, as a task takes it along."""

    path: Path
    checksum: str
    content: Shared

    def load(self) -> Detector:
        """Return the detector; a worker loads it once. What a task changes of it, it changes in a copy."""
        if self.checksum not in _loaded:
            with tempfile.TemporaryDirectory(prefix="patchad-") as folder:
                copy = Path(folder) / self.path.name
                copy.write_bytes(self.content.get())
                try:
                    _loaded[self.checksum] = load(copy)
                except ModelFileError as error:
                    raise ModelFileError(str(error).replace(str(copy), str(self.path))) from None
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(self.checksum)
        return _loaded[self.checksum]


class Models:
    """The model of each series.

    Parameters
    ----------
    path
        A model file, or a folder of them: there, `pump.safetensors` is the model of the series `pump`, and what a
        file's name cannot hold is written as in `OUT/scores`.
    """

    def __init__(self, path: Path, runner: Runner) -> None:
        self._runner, self.path = runner, path
        self._known: dict[Path, Model] = {}
        self._files = {one.name.removesuffix(SUFFIX): one for one in path.glob(f"*{SUFFIX}")} if path.is_dir() else {}
        if path.is_dir() and not self._files:
            raise InputError(f"folder {str(path)!r} has no model ({SUFFIX}); `patchad fleet fit` writes one per series")
        if not path.is_dir():
            load(path)

    def files(self) -> list[Path]:
        """Return the model files."""
        return sorted(self._files.values()) if self._files else [self.path]

    def by_series(self, names: Iterable[str]) -> dict[str, Model | InputError]:
        """Return the model of each series, or why it has none."""
        return {name: self._of(name, file) for name, file in file_names(names).items()}

    def _of(self, series: str, file: str) -> Model | InputError:
        if not self._files:
            return self._model(self.path)
        path = self._files.get(file) or self._files.get(file_names([series])[series])
        if path is None:
            return InputError(f"there is no model {file + SUFFIX!r} for it in {str(self.path)!r}; fit one")
        return self._model(path)

    def _model(self, path: Path) -> Model:
        if path not in self._known:
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            self._known[path] = Model(path, checksum, self._runner.share(path))
        return self._known[path]
