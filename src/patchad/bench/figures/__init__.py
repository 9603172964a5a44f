"""The paper's figures, reproduced from simulated series, real entities and records."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from patchad.bench.figures import cases, collapse, entropy, features, from_records, kinds, losses, overall, theory
from patchad.bench.figures.base import Figure, FigureOptions, MissingSourceError
from patchad.bench.figures.drawing import render, styled
from patchad.data.files import write_whole
from patchad.errors import InputError, listed

FIGURES: Mapping[str, Figure] = {
    "overall": Figure(
        "mean of each metric over datasets, published and ours, from records of paper-classic",
        overall.means,
        overall.draw_means,
    ),
    "kinds": Figure("five kinds of anomaly and PatchAD's scores", kinds.curves, kinds.draw_curves),
    "kinds-auc": Figure(
        "ROC-AUC and events found by each score on each kind, over seeds", kinds.quality, kinds.draw_quality
    ),
    "kinds-others": Figure(
        "TCN-ED on contextual and seasonal, TimesNet on group anomalies", kinds.others, kinds.draw_others
    ),
    "cases": Figure("input, reconstruction and score of real entities", cases.studies, cases.draw_studies),
    "features": Figure("Rec 1 and Rec 2 in the paper's five cases", features.cases, features.draw_windows),
    "features-patches": Figure("Rec 1 and Rec 2 for other patch sizes", features.patch_sets, features.draw_windows),
    "features-detail": Figure("how much detail Rec 1 and Rec 2 have", features.detail, features.draw_detail),
    "entropy": Figure("softmax entropy of both mixers over training", entropy.compute, entropy.draw_softmax),
    "entropy-gaussian": Figure("the same by the paper's formula", entropy.compute, entropy.draw_gaussian),
    "tsne": Figure("t-SNE of input, inter and intra view", cases.latent, cases.draw_latent),
    "constraint": Figure("the loss with and without the projection constraint", losses.compute, losses.draw),
    "collapse": Figure(
        "how much of the views is their centre, and their entropy as in the code", collapse.compute, collapse.draw
    ),
    "sensitivity": Figure(
        "the six sensitivity plots, from records of paper-sensitivity",
        from_records.sensitivity,
        from_records.draw_sensitivity,
    ),
    "sizes": Figure(
        "parameters, FLOPs and latency, from records of paper-cost", from_records.sizes, from_records.draw_sizes
    ),
    "time": Figure(
        "time of an epoch against stride, window and d_model, from records of paper-cost",
        from_records.cost_against,
        from_records.draw_cost_against,
    ),
    "theory": Figure("the theory's entropies, by formula and by simulation", theory.compute, theory.draw),
}
"""By name, in the order of the paper."""


def find_figure(name: str) -> Figure:
    """Look up a figure by name.

    Examples
    --------
    >>> find_figure("tsne").about
    't-SNE of input, inter and intra view'
    """
    if name not in FIGURES:
        near = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"there is no figure {name!r}; {hint}use one of {listed(tuple(FIGURES), 100)}")
    return FIGURES[name]


def make_figures(
    names: Iterable[str], folder: Path, options: FigureOptions, notify: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Write `NAME.png`, `NAME.svg` and `NAME.csv` for each figure; return the names of those that could be made.

    Parameters
    ----------
    names
        Keys of `FIGURES`; empty: all.
    folder
        Where to write; created if it does not exist.
    options
        What to make them from.
    notify
        Takes lines of progress: what was written, and why a figure was left out.

    Raises
    ------
    InputError
        A name is unknown, or none of the figures could be made.
    """
    chosen = {name: find_figure(name) for name in names} or dict(FIGURES)
    if folder.is_file():
        raise InputError(f"{str(folder)!r} is a file; give a folder with -o")
    with styled():  # reports a missing library before anything is computed
        pass
    made: list[str] = []
    reasons: list[str] = []
    for name, figure in chosen.items():
        try:
            contents = render(figure, figure.compute(options))
        except MissingSourceError as error:
            reasons.append(f"{name}: {error}")
            notify(f"left out: {reasons[-1]}")
            continue
        write_whole({folder / f"{name}.{suffix}": content for suffix, content in contents.items()})
        made.append(name)
        notify(f"[{len(made) + len(reasons)}/{len(chosen)}] {folder / name}.png, .svg, .csv: {figure.about}")
    if not made:
        raise InputError(f"no figure could be made; {'; '.join(reasons)}")
    return made
