"""Write `golden.safetensors` and `golden.json`: a tiny model of the present format, and its scores.

Run it when the format number is raised: older files are refused, and this one takes their place.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from patchad import PatchAD

HERE = Path(__file__).parent


def series(rows: int) -> pd.DataFrame:
    """Return two waves that no random generator can change."""
    t = np.arange(rows)
    return pd.DataFrame({"flow": np.sin(t / 4), "heat": np.cos(t / 7) + 0.1 * np.sin(t * t)})


def main() -> None:
    """Fit, save, score."""
    detector = PatchAD(window=15, d_model=4, layers=1, max_steps=20, batch_size=8).fit(series(200))
    detector.save(HERE / "golden.safetensors")
    found = detector.detect(series(60).assign(flow=lambda frame: frame["flow"].mask(frame.index == 40, 9.0)))
    expected = {
        "scores": found.scores.tolist(),
        "level": float(found.levels[0]),
        "events": [[event.start, event.stop, event.channels[0][0]] for event in found.events],
    }
    (HERE / "golden.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
