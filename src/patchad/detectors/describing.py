"""What a model file holds, in words: for `patchad inspect`, assistants and model cards."""

from __future__ import annotations

from pathlib import Path

from patchad.detectors import checkpoint
from patchad.detectors.base import Detector
from patchad.detectors.registry import load
from patchad.errors import listed
from patchad.model.pretrained import Origin
from patchad.thresholds.promise import Promise

SHAPE = ("window", "hop", "patch_sizes")
"""Parameters that a fit may change, where a detector has them."""


def describe_model(model: Path, most: int = 12) -> dict[str, str]:
    """Return the contents of a model file by name; of its channels the first few."""
    detector = load(model)
    header, _ = checkpoint.read(model)
    held_out = sum(stop - start for start, stop in header["held_out"])
    lines = {
        "detector": header["detector"],
        "channels": f"{len(header['channels'])}: {listed(header['channels'], most)}",
        "n parameters": header["n_parameters"],
        **{name.replace("_", " "): getattr(detector, f"{name}_") for name in SHAPE if hasattr(detector, f"{name}_")},
        **_weights(detector),
        "delay": f"{detector.delay} rows",
        "threshold": _level(detector),
        "train scores": f"{len(detector.train_scores_):,} kept, {held_out:,} of them held out",
        "settings": _settings(detector),
        "feedback": "; ".join(map(str, detector.feedback_)) or "none",
        "notes": "; ".join(header["notes"]) or "none",
        "format": f"{header['format']}, written by patchad {header['patchad_version']}",
        "checksum": header["checksum"],
    }
    return {name: str(value) for name, value in lines.items()}


def _weights(detector: Detector) -> dict[str, str]:
    """Say where a net comes from that was not trained from scratch."""
    origin: Origin | None = getattr(detector, "origin_", None)
    if origin is None:
        return {}
    steps = int(getattr(detector, "tune_steps", 0))
    tuned = f", tuned for {steps} steps" if steps else ""
    return {"weights": f"pretrained{tuned}; SHA-256 of their file {origin.digest}"}


def _level(detector: Detector) -> str:
    """Describe the level, and for a promised rate what it rests on."""
    fitted, name = detector.threshold_, detector.threshold
    text = f"{name}, level {fitted.level:.6g}"
    if isinstance(fitted, Promise):
        promise = f"{fitted.false_alarms:g} false events per 10,000 rows"
        text += f" ({promise}; {fitted.basis}, from {fitted.clusters} clusters in {fitted.rows:,} held-out rows)"
    return text


def _settings(detector: Detector) -> str:
    """Format the parameters that differ from their defaults."""
    defaults = type(detector)().get_params()
    changed = {name: value for name, value in detector.get_params().items() if value != defaults[name]}
    return ", ".join(f"{name}={value}" for name, value in changed.items()) or "defaults"
