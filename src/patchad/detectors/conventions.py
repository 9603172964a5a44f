"""Methods that scikit-learn's users know, in terms of ours."""

from __future__ import annotations

from typing import Any, Protocol, Self


class _Fitting(Protocol):
    def fit(self, X: Any, y: Any = None) -> Self: ...
    def decision_function(self, X: Any) -> Any: ...
    def predict(self, X: Any) -> Any: ...


class Conventions:
    """`score_samples` and `fit_predict` for every detector."""

    def score_samples(self: _Fitting, X: Any) -> Any:
        """Score every row, lower is stranger: `decision_function` with the sign that scikit-learn gives this name."""
        scores = self.decision_function(X)
        return [_negated(one) for one in scores] if isinstance(scores, list) else _negated(scores)

    def fit_predict(self: _Fitting, X: Any, y: Any = None) -> Any:
        """Fit on X; return 1 for every anomalous row of it and 0 for every other."""
        return self.fit(X, y).predict(X)


def _negated(scores: Any) -> Any:
    if hasattr(scores, "__neg__"):
        return -scores
    from pyarrow import compute

    return compute.negate(scores)
