"""The paper's figures, made again from simulated series, real entities and records: a table each, and its drawing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from patchad.bench.figures import cases, entropy, features, from_records, kinds, losses, theory
from patchad.bench.figures.drawing import render, styled
from patchad.bench.figures.plan import Figure, LackingError, Options
from patchad.data.files import write_whole
from patchad.errors import InputError, listed

FIGURES: Mapping[str, Figure] = {
    "kinds": Figure("five kinds of anomaly and PatchAD's scores", kinds.curves, kinds.draw_curves),
    "kinds-auc": Figure(
        "what each score reaches on each kind, over seeds", kinds.figures_of_merit, kinds.draw_figures_of_merit
    ),
    "kinds-others": Figure(
        "TCN-ED on contextual and seasonal, TimesNet on group anomalies", kinds.others, kinds.draw_others
    ),
    "cases": Figure("input, reconstruction and score of real entities", cases.studies, cases.draw_studies),
    "features": Figure("Rec 1 and Rec 2 in the paper's five cases", features.cases, features.draw_windows),
    "features-patches": Figure("Rec 1 and Rec 2 for other patch sizes", features.patch_sets, features.draw_windows),
    "features-detail": Figure("how much detail Rec 1 and Rec 2 have", features.detail, features.draw_detail),
    "entropy": Figure("softmax entropy of both mixers over training", entropy.table, entropy.draw_softmax),
    "entropy-gaussian": Figure("the same by the paper's formula", entropy.table, entropy.draw_gaussian),
    "tsne": Figure("t-SNE of input, inter and intra view", cases.latent, cases.draw_latent),
    "constraint": Figure("the loss with and without the projection constraint", losses.table, losses.draw),
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
    "theory": Figure("the theory's entropies, by formula and by simulation", theory.table, theory.draw),
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
    names: Iterable[str], folder: Path, options: Options, say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Write `NAME.png`, `NAME.svg` and `NAME.csv` of each figure; give the names of those that could be made.

    Parameters
    ----------
    names
        Of `FIGURES`; none: all.
    folder
        Where to write; made where it is not there.
    options
        What to make them from.
    say
        Takes lines for people: what was written, and what a figure lacks that is left out.

    Raises
    ------
    InputError
        A name is unknown, or not one of the figures could be made.
    """
    chosen = {name: find_figure(name) for name in names} or dict(FIGURES)
    if folder.is_file():
        raise InputError(f"{str(folder)!r} is a file; give a folder with -o")
    with styled():  # a missing library is said before anything is worked out
        pass
    made: list[str] = []
    reasons: list[str] = []
    for name, figure in chosen.items():
        try:
            contents = render(figure, figure.table(options))
        except LackingError as error:
            reasons.append(f"{name}: {error}")
            say(f"left out: {reasons[-1]}")
            continue
        write_whole({folder / f"{name}.{suffix}": content for suffix, content in contents.items()})
        made.append(name)
        say(f"[{len(made) + len(reasons)}/{len(chosen)}] {folder / name}.png, .svg, .csv: {figure.about}")
    if not made:
        raise InputError(f"no figure could be made; {'; '.join(reasons)}")
    return made
