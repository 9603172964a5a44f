"""Our metrics as scorers of scikit-learn, as for `GridSearchCV`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from patchad.errors import MetricError


def scorer(
    metric: Callable[..., Any], part: str | None = None, *, greater_is_better: bool = True, **options: Any
) -> Callable[[Any, Any, Any], float]:
    """Make a scorer `(detector, X, y) -> float` of a metric of `patchad.metrics`; y are the labels of the rows of X.

    What is chosen this way is chosen on labels: report its results on other data.

    Parameters
    ----------
    metric
        A function that takes `labels=`, and `scores=` or `alarms=`.
    part
        Of a metric that returns several values, which: as `pr` of `vus`.
    greater_is_better
        False turns the sign round, as scikit-learn does for a delay.
    options
        Further arguments of the metric, as `window=20`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from patchad import make, metrics
    >>> rows = np.random.default_rng(0).normal(size=(600, 2))
    >>> rows[500:510] += 5
    >>> labels = np.arange(600) // 10 == 50
    >>> folds = [(np.arange(300), np.arange(300, 600))]  # fit on the first half, judge on the second
    >>> search = GridSearchCV(make("moving_zscore"), {"window": [5, 200]}, cv=folds, scoring=scorer(metrics.pr_auc))
    >>> search.fit(rows, labels).best_params_
    {'window': 200}
    """
    wanted = inspect.signature(metric).parameters
    if "labels" not in wanted or not {"scores", "alarms"} & set(wanted):
        raise MetricError(f"{metric!r} is no metric of labels and scores or alarms; pass a function of patchad.metrics")

    def judge(detector: Any, X: Any, y: Any) -> float:
        given = (
            {"scores": np.asarray(detector.decision_function(X))}
            if "scores" in wanted
            else {"alarms": np.asarray(detector.predict(X))}
        )
        value = metric(labels=np.asarray(y), **given, **options)
        if part is not None:
            value = getattr(value, part)
        return float(value) if greater_is_better else -float(value)

    return judge
