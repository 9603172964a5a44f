"""How figures look: colours that everyone can tell apart, no decoration, reproducible bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.data.table import BoolArray
from patchad.errors import MissingExtraError
from patchad.results.detection import alarm_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from patchad.bench.figures.base import Figure, Frame

# Okabe and Ito's palette, dark colours first: lines must show on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
"""Lines also differ by style, for print without colour."""
INK = "#000000"
SHADE = "#F0C9A8"
"""The background of labelled rows."""
SETTINGS: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "savefig.dpi": 110,
    "svg.hashsalt": "patchad",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


def render(figure: Figure, frame: Frame) -> dict[str, bytes]:
    """Draw the data of a figure; return the content of the files by suffix: `png`, `svg`, and `csv` with the data.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    contents = {"csv": frame.to_csv(index=False, float_format="%.4g", lineterminator="\n").encode()}
    with styled():
        canvas = figure.draw(frame)
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            file = io.BytesIO()
            canvas.savefig(file, format=suffix, metadata=metadata)
            contents[suffix] = file.getvalue()
    contents["png"] = _with_palette(contents["png"])
    return contents


def _with_palette(png: bytes) -> bytes:
    """Reduce an image to 256 colours, which suffice for lines and shades and halve the file."""
    from PIL import Image

    file = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(file, format="png", optimize=True)
    return file.getvalue()


@contextmanager
def styled() -> Iterator[None]:
    """Apply `SETTINGS` to matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "figures") from None
    with mpl.rc_context(SETTINGS):
        yield


def panels(rows: int, columns: int, *, width: float, height: float, **more: Any) -> tuple[Canvas, Any]:
    """Create a canvas with `(row, column)` axes, each of this size in inches."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
    return canvas, canvas.subplots(rows, columns, squeeze=False, **more)


def shade(axes: Any, labels: BoolArray) -> None:
    """Shade the labelled events, each at least a hundredth of the width so that it can be seen."""
    least = len(labels) / 100
    for start, stop in alarm_runs(np.asarray(labels, dtype=bool)):
        middle, reach = (start + stop - 1) / 2, max(stop - start, least) / 2
        axes.axvspan(middle - reach, middle + reach, color=SHADE, linewidth=0, zorder=0)


def line_with_range(axes: Any, frame: Frame, x: str, y: str, number: int, label: str) -> None:
    """Draw the mean over seeds and shade their range, in the colour and style of this number."""
    by = frame.groupby(x, sort=True)[y]
    mean, low, high = by.mean(), by.min(), by.max()
    colour = COLOURS[number % len(COLOURS)]
    axes.fill_between(mean.index, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(mean.index, mean, color=colour, linestyle=STYLES[number % len(STYLES)], label=label)


def sizes_text(sizes: object) -> str:
    """Format patch sizes for data and legends.

    Examples
    --------
    >>> sizes_text((1, 2, 5))
    '1,2,5'
    """
    return ",".join(map(str, sizes)) if isinstance(sizes, tuple | list) else str(sizes)
