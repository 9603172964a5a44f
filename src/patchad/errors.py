"""The errors of PatchAD.

Every message says what came, what was needed and what to do::

    PatchADError
    ├── InputError          (ValueError)   data or a parameter that cannot be used
    │   └── MetricError                    labels, alarms or scores that a metric cannot take
    ├── ModelFileError      (ValueError)   a model file that is damaged, foreign or too new
    ├── UnsupportedError                   what this detector cannot do, by its nature
    ├── MissingExtraError   (ImportError)  an optional library that is not installed
    └── MissingWeightsError (FileNotFoundError)  trained weights that the user has to provide
"""

from __future__ import annotations

from collections.abc import Sequence


class PatchADError(Exception):
    """Base of all errors that PatchAD raises on purpose."""


class InputError(PatchADError, ValueError):
    """Data or a parameter that cannot be used."""


class MetricError(InputError):
    """Labels, alarms or scores that a metric cannot take."""


class ModelFileError(PatchADError, ValueError):
    """A model file that is damaged, foreign or written by a newer version."""


class UnsupportedError(PatchADError):
    """Something that this detector cannot do, by its nature."""


class MissingExtraError(PatchADError, ImportError):
    """An optional library is not installed.

    Parameters
    ----------
    library
        The missing library.
    extra
        The extra of PatchAD that installs it.
    """

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed; install it with: pip install 'patchad[{extra}]'")
        self.extra = extra


class MissingWeightsError(PatchADError, FileNotFoundError):
    """Trained weights that PatchAD neither holds nor downloads are not where they were looked for.

    Parameters
    ----------
    model
        Whose weights.
    folder
        Where they were looked for.
    parameter
        The parameter that names the folder.
    """

    def __init__(self, model: str, folder: str, parameter: str) -> None:
        super().__init__(
            f"no weights of {model} in the folder {folder!r}; put config.json and model.safetensors there, "
            f"or name the folder that has them with {parameter}="
        )
        self.folder = folder


def listed(names: Sequence[object], most: int = 6) -> str:
    """Write names for a message, the first few of many.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def reason_of(error: BaseException) -> str:
    """Return the first line of what another library says is wrong, or the kind of error where it says nothing.

    Examples
    --------
    >>> reason_of(ValueError("no number")), reason_of(EOFError())
    ('no number', 'EOFError')
    """
    return next(iter(str(error).splitlines()), type(error).__name__)
