"""What to run: the datasets, detectors and seeds of every suite. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from patchad.datasets.catalogue import DATASETS
from patchad.datasets.tsb_ad import COLLECTIONS
from patchad.errors import InputError, listed


@dataclass(frozen=True, slots=True)
class Variant:
    """A detector with its parameters, and the name of its table row."""

    name: str
    detector: str = "patchad"
    """Its name in `patchad.detectors.registry.DETECTORS`."""
    preset: Literal["default", "paper", "code1", "code2"] = "default"
    """Where the parameters come from: the constructor's defaults, `PatchAD.paper`, or `PatchAD.code` by trainer."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the preset. A threshold given here takes precedence over the protocol's."""
    many: Mapping[str, Any] = field(default_factory=dict)
    """Further changes where an entity has several channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Datasets x entities x seeds x detectors x protocols: one cell each."""

    name: str
    about: str
    protocols: tuple[str, ...]
    datasets: tuple[str, ...]
    variants: tuple[Variant, ...]
    others: tuple[Variant, ...] = ()
    """Further variants, run only if named or with `all`; every detector of the registry can be named without them."""
    seeds: tuple[int, ...] = (0, 1, 2)
    joined: tuple[str, ...] = ()
    """Datasets whose entities are concatenated, as in the paper."""
    every: Mapping[str, int] = field(default_factory=dict)
    """Datasets that are thinned to every n-th row."""
    sample: Mapping[str, tuple[str, ...]] | None = None
    """The entities of each dataset; None: all."""
    train_rows: int | None = None
    """Keep only this many of the newest rows of train; None: all."""
    test_rows: int | None = None
    """Keep only this many of the first rows of test; None: all."""
    cpu_steps: int | None = None
    """`max_steps` of a detector without one of its own, on a machine without a GPU."""
    cost: bool = False
    """Whether to measure what a window and an epoch cost, instead of quality."""


def _paper(name: str, **parameters: Any) -> Variant:
    return Variant(name, "patchad", "paper", parameters)


DEFAULT = Variant("patchad")
PAPER = _paper("patchad-paper")
LETTER = _paper("patchad-letter", orientation=1)
RANDOM = Variant("random", "random")
NPSR = Variant("npsr_seq-induced", "npsr_seq", parameters={"score": "induced"})
"""The complete NPSR, which the paper lists besides its two models."""
PLAIN_DC = Variant("dcdetector-plain", "dcdetector", parameters={"softmax": False})
"""DCdetector's discrepancy itself, which windows can be compared by, instead of its softmax over the window."""
_PUBLISHED: Mapping[str, Any] = {"learning_rate": 1e-4, "epochs": 3, "max_steps": None}
PUBLISHED = (
    Variant(
        "anomaly_transformer-published",
        "anomaly_transformer",
        parameters={"d_model": 512, "batch_size": 256, **_PUBLISHED},
    ),
    Variant("dcdetector-published", "dcdetector", parameters={"d_model": 256, "batch_size": 128, **_PUBLISHED}),
)
"""The closest relatives of the paper's net with width, batch and rate of their public code, and the paper's epochs."""
FOUR = (DEFAULT, PAPER, LETTER, RANDOM)
"""`PatchAD()`, `PatchAD.paper()`, the paper read to the letter (a large distance is anomalous), and chance."""
CODE = tuple(Variant(f"patchad-code{trainer}", "patchad", f"code{trainer}") for trainer in (1, 2))  # type: ignore[arg-type]
"""What the paper's public code computes, by either of its trainers."""
COMPARED = (*FOUR[:3], *CODE, RANDOM)
ALL_PROTOCOLS = ("paper", "code", "open")
"""The same scores measured as the paper has it, as its public code does, and without the test side."""

ABLATIONS = (
    _paper("wo_ch_sharing", share_channel_mixer=False),
    _paper("wo_ch_mixer", channel_mixer=False),
    _paper("wo_mixrep_mixer", mixrep_mixer=False),
    _paper("wo_pos_emb", positional_embedding=False),
    _paper("wo_constraint", constraint=0.0),
    _paper("spot", threshold="spot"),
    _paper("spot_plain", threshold="spot_plain"),
)
DISTANCES = tuple(_paper(f"distance={name}", distance=name) for name in ("l2", "wasserstein", "jsd"))
PATCH_SETS = (
    *((1,), (3,), (5,), (7,)),
    *((1, 3), (1, 5), (1, 7), (3, 5), (3, 7), (5, 7)),
    *((1, 3, 5), (1, 3, 7), (1, 5, 7), (3, 5, 7), (1, 3, 5, 7)),
)
SENSITIVITIES = (
    *(_paper(f"constraint={tenth / 10:g}", constraint=tenth / 10) for tenth in range(10)),
    *(_paper(f"threshold=ratio:{tenth / 10:g}", threshold=f"ratio:{tenth / 10:g}") for tenth in range(5, 13)),
    *(_paper(f"d_model={width}", d_model=width) for width in range(10, 100, 10)),
    *(_paper(f"layers={depth}", layers=depth) for depth in range(1, 6)),
    *(_paper(f"window={window}", window=window) for window in range(30, 211, 15)),
    *(_paper(f"patch_sizes={','.join(map(str, sizes))}", patch_sizes=sizes) for sizes in PATCH_SETS),
    _paper("stride=window", stride=105),
)
STRIDES = (1, 5, 15, 35, 105)
COSTS = (
    *(_paper(f"stride={stride}", stride=stride) for stride in STRIDES),
    # Here the paper uses multiples of 35 as windows, and its usual patch size of 3 does not divide them.
    *(
        _paper(f"window={window},patch_sizes=5,7,stride=35", window=window, patch_sizes=(5, 7), stride=35)
        for window in (35, 70, 105, 140, 175)
    ),
    *(_paper(f"d_model={width},stride=35", d_model=width, stride=35) for width in (20, 40, 60, 80)),
)

PAANO = Variant(
    "paano-public",
    "paano",
    parameters={"window": 64, "hop": 1, "batch_size": 512, "max_steps": 200, "learning_rate": 1e-4, "bank": None},
    many={"window": 96},
)
"""PaAno with the sizes of its public code, which take minutes a series without a GPU."""
KAN_AD = Variant("kan_ad-public", "kan_ad", parameters={"batch_size": 128, "epochs": 100, "max_steps": None})
"""KAN-AD with the batch and the epochs of its public code."""
RANGES = tuple(
    Variant(f"{name}-range", name, parameters={"scaling": "range"})
    for name in ("autoencoder", "lstm_rnn", "sub_knn", "ocsvm_sub", "kmeans_ad")
)
"""The strongest comparison methods of `open`, scaled as `PatchAD()` scales."""

INGREDIENTS = (
    Variant("weights=None", parameters={"weights": None}),
    Variant("memory=0", parameters={"memory": 0}),
    Variant("adapt=0", parameters={"adapt": 0}),
    Variant("scaling=zscore", parameters={"scaling": "zscore"}),
    Variant("fold=newest", parameters={"fold": "newest"}),
    Variant("window=60", parameters={"window": 60}),
    Variant("window=30", parameters={"window": 30}),
    Variant("score=residual", parameters={"score": "residual"}),
    Variant("score=discrepancy", parameters={"score": "discrepancy"}),
)
"""`PatchAD()` with one ingredient changed."""


def _relative(name: str, detector: str, **parameters: Any) -> Variant:
    """Return a method at its published size, trained like the paper's net; two steps suffice to time a step."""
    shared = {"window": 105, "batch_size": 128, "epochs": 3, "max_steps": 2, "calibration": 0.0}
    return Variant(name, detector, parameters=shared | parameters)


RELATIVES = (
    *(_relative(f"dcdetector,stride={n}", "dcdetector", d_model=256, stride=n) for n in STRIDES),
    _relative("anomaly_transformer", "anomaly_transformer", d_model=512),
    _relative("timesnet", "timesnet"),
    _relative("usad", "usad"),
    _relative("m2n2", "m2n2"),
    _relative("d3r", "d3r"),
    _relative("gpt2_adapter", "gpt2_adapter"),
)
"""Methods of the paper's cost figures that are available here at their published sizes."""

WATER = {"SWaT": 5, "WADI": 5}
"""The paper's row counts of SWaT and WADI are those of every fifth row of the native files."""
JOINED = ("MSL", "SMAP", "PSM", "SWaT", "WADI", "SWAN", "GECCO")
CPU_STEPS = 50
"""Training steps of the paper's net without a GPU, where a step of 128 windows takes seconds."""

SAMPLE = {name: dataset.sample for name, dataset in DATASETS.items() if dataset.sample}
"""The fixed sample of `open`: entities of each family, ordered so that the first ones differ most."""


def _like_paper(
    name: str,
    about: str,
    datasets: tuple[str, ...],
    variants: tuple[Variant, ...],
    *,
    others: tuple[Variant, ...] = (),
    protocols: tuple[str, ...] = ("paper",),
    cost: bool = False,
) -> Suite:
    return Suite(
        name=name,
        about=about,
        protocols=protocols,
        datasets=datasets,
        variants=variants,
        others=others,
        joined=JOINED,
        every=WATER,
        cpu_steps=CPU_STEPS,
        cost=cost,
    )


_comparison = partial(_like_paper, variants=COMPARED, protocols=ALL_PROTOCOLS)


_SUITES = (
    _comparison("paper-pa", "the comparison with point adjustment", ("MSL", "SMAP", "PSM", "SWaT")),
    _comparison(
        "paper-classic",
        "the comparison without point adjustment",
        ("MSL", "SMAP", "SWaT", "WADI", "PSM", "SWAN"),
        others=(NPSR, PLAIN_DC, *PUBLISHED),
    ),
    _comparison("paper-nips", "the NIPS-TS comparison", ("SWAN", "GECCO")),
    _comparison("paper-ucr", "the UCR comparison, series by series", ("UCR",)),
    _like_paper(
        "paper-ablation",
        "the net without one of five modules, and with the SPOT threshold, ours and as published",
        ("MSL", "SMAP", "WADI", "PSM"),
        (PAPER, *ABLATIONS, DEFAULT, RANDOM),
    ),
    _like_paper(
        "paper-distance",
        "L2, Wasserstein and Jensen-Shannon instead of Kullback-Leibler",
        ("MSL", "SMAP", "WADI", "PSM"),
        (PAPER, *DISTANCES, DEFAULT, RANDOM),
    ),
    _like_paper(
        "paper-sensitivity",
        "constraint, threshold, width, depth, window, patch sizes and training stride",
        ("MSL", "SMAP", "PSM"),
        (PAPER, *SENSITIVITIES, RANDOM),
    ),
    _like_paper(
        "paper-cost",
        "parameters, operations, latency, and training time against stride, window and width",
        ("swat-shaped", "SWaT"),
        (PAPER, DEFAULT, *COSTS, *RELATIVES),
        cost=True,
    ),
    Suite(
        name="open",
        about="a fixed sample of every family; nothing from the test side",
        protocols=("open",),
        datasets=tuple(SAMPLE),
        variants=FOUR,
        others=(PAANO, KAN_AD, *RANGES),
        sample=SAMPLE,
        train_rows=20_000,
        test_rows=40_000,
        cpu_steps=CPU_STEPS,
    ),
    Suite(
        name="open-ablation",
        about="the sample of `open`, with one ingredient of `PatchAD()` changed at a time",
        protocols=("open",),
        datasets=tuple(SAMPLE),
        variants=(DEFAULT, *INGREDIENTS, RANDOM),
        sample=SAMPLE,
        train_rows=20_000,
        test_rows=40_000,
    ),
    Suite(
        name="open-full",
        about="every entity of every dataset; nothing from the test side",
        protocols=("open",),
        datasets=tuple(SAMPLE),
        variants=FOUR,
        others=(PAANO, KAN_AD, *RANGES),
        cpu_steps=CPU_STEPS,
    ),
    Suite(
        name="tsb-ad",
        about="every series in the layout of the TSB-AD benchmark, measured as its authors do",
        protocols=("tsb-ad",),
        datasets=COLLECTIONS,
        variants=(DEFAULT, RANDOM),
        others=(PAANO, KAN_AD),
        seeds=(0,),
        cpu_steps=CPU_STEPS,
    ),
    Suite(
        name="smoke",
        about="simulated series, both protocols; takes minutes and needs no data",
        protocols=("open", "paper"),
        datasets=("plant", "five-kinds"),
        variants=(
            DEFAULT,
            PAPER,
            LETTER,
            RANDOM,
        ),
        seeds=(0,),
        cpu_steps=10,
    ),
)

SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _SUITES}


def find_suite(name: str) -> Suite:
    """Look up a suite by name.

    Examples
    --------
    >>> find_suite("smoke").datasets
    ('plant', 'five-kinds')
    """
    if name not in SUITES:
        raise InputError(f"there is no suite {name!r}; use one of {listed(tuple(SUITES), 100)}")
    return SUITES[name]
