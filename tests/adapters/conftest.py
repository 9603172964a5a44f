"""Frameworks that do not install beside each other: tests of those that are absent are not collected.

`make test-adapters` builds an environment for each group and runs all of them.
"""

from __future__ import annotations

from importlib.util import find_spec

FRAMEWORKS = ("sktime", "aeon", "river", "mlflow", "darts")

collect_ignore = [f"test_{name}.py" for name in FRAMEWORKS if find_spec(name) is None]
