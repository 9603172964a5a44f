"""Files that hold several tables, and which of them is taken."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchad.errors import InputError, listed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Members:
    """The tables of a file that holds several, none of them read yet."""

    kind: Literal["array", "sheet"]
    read: Mapping[str, Callable[[], Any]]
    """What reads each, by name, in the order of the file."""

    def pick(self, name: str) -> Any:
        """Read the table of that name, or the only one; of sheets without that name, the first.

        Examples
        --------
        >>> Members("array", {"train": lambda: 1, "test": lambda: 2}).pick("test")
        2
        """
        names = tuple(self.read)
        if not names:
            raise InputError(f"the file holds no {self.kind}; one with rows of numbers is needed")
        if name in names:
            return self.read[name]()
        if len(names) > 1 and self.kind == "array":
            raise InputError(
                f"the file holds arrays {listed(names)}, and none is named {name!r}; name the one to use so"
            )
        if len(names) > 1:
            logger.warning("of the sheets %s the first is read; name another %r to use it", listed(names), name)
        return self.read[names[0]]()
