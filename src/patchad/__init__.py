"""PatchAD: time-series anomaly detection with patches."""
