"""From a suite to its cells: which detectors with which parameters, on which entities, with which seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from patchad.bench.protocols import PROTOCOLS
from patchad.bench.records import Record, identity
from patchad.bench.suites import Suite, Variant
from patchad.datasets.catalogue import lookup
from patchad.datasets.entity import Entity, join
from patchad.datasets.loading import find
from patchad.datasets.published import differences_from_published
from patchad.datasets.synthetic import SYNTHETIC, generate
from patchad.datasets.tsb_ad import COLLECTIONS, family_of, read_collection
from patchad.detectors.patchad import PatchAD
from patchad.detectors.registry import DETECTORS
from patchad.errors import InputError, PatchADError, listed
from patchad.model.pretrained import SHIPPED, unseen_weights
from patchad.model.training import find_device

Notify = Callable[[str], None]
"""Takes a line of progress for people."""

ALL = "all"
"""The name that stands for every variant of a suite and every other detector of the registry."""

LEFT_OUT = ("random_state", "device", "verbose")
"""Parameters that are not part of a cell's: seed and hardware have fields of their own."""


EVENT_PARAMETERS = ("merge_gap", "min_duration")
"""Parameters that shape events, which no metric of a protocol reads."""

FORMERLY: Mapping[str, Any] = {"scaling": "zscore", "softmax": True, "switches": True, "weights": None}
"""What detectors did before they had these parameters, which older records therefore lack."""

PRESETS: Mapping[str, Callable[..., PatchAD]] = {
    "paper": PatchAD.paper,
    "code1": partial(PatchAD.code, 1),
    "code2": partial(PatchAD.code, 2),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to make: the fields that identify its record."""

    suite: str
    protocol: str
    dataset: str
    entity: str
    detector: str
    parameters: Mapping[str, Any]
    seed: int

    def to_dict(self) -> Record:
        """Return the identifying fields as a record has them."""
        return {name: getattr(self, name) for name in Cell.__slots__}

    @property
    def fit_key(self) -> str:
        """A text that cells have in common if they can share one fit.

        They may differ in protocol, in threshold and, for a discrepancy score, in orientation.
        """
        free = ("threshold", "orientation") if self.parameters.get("score") == "discrepancy" else ("threshold",)
        rest = {name: value for name, value in self.parameters.items() if name not in free}
        return identity(self.to_dict() | {"protocol": "", "parameters": rest})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How much of a suite to run, and with what."""

    data: Path = Path("data")
    """Folder with the datasets."""
    workers: int = 2
    """Processes, with one thread each."""
    limit: int | None = None
    """Maximum number of cells, taken from the start."""
    entities: int | None = None
    """Maximum number of entities per dataset, taken from the start."""
    seeds: int | None = None
    """Number of seeds; None: the suite's."""
    detectors: tuple[str, ...] = ()
    """Variants of the suite or detectors of the registry by name, or `all`; empty: the variants of the suite."""
    datasets: tuple[str, ...] = ()
    """Datasets of the suite; empty: all."""
    weights: Path | None = None
    """Folder of pretrained weights, each of which never saw a family, for those that the package's weights saw."""
    max_steps: int | None = None
    """Maximum number of training steps for detectors without a bound of their own, on any machine; 0: no bound; None:
    the suite's where there is no GPU."""

    def __post_init__(self) -> None:
        for name, least in {"workers": 1, "limit": 1, "entities": 1, "seeds": 1, "max_steps": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")


def all_variants(suite: Suite) -> tuple[Variant, ...]:
    """Return the variants of a suite, and one for every other detector of the registry.

    Examples
    --------
    >>> from patchad.bench.suites import SUITES
    >>> names = [variant.name for variant in all_variants(SUITES["open"])]
    >>> names[:4], "sensor_range" in names[4:]
    (['patchad', 'patchad-paper', 'patchad-letter', 'random'], True)
    """
    present = {variant.detector for variant in suite.variants}
    return (*suite.variants, *(Variant(name, name) for name in DETECTORS if name not in present), *suite.others)


def narrow(suite: Suite, options: RunOptions) -> Suite:
    """Return the suite with only the detectors, datasets and seeds that the options select."""
    variants: list[Variant] = []
    for name in options.detectors:
        known = all_variants(suite)
        chosen = [v for v in known if name in (v.name, ALL)] or [v for v in known if v.detector == name]
        if not chosen:
            names = dict.fromkeys([*(variant.name for variant in known), *DETECTORS, ALL])
            raise InputError(f"there is no detector {name!r} in {suite.name}; use one of {listed(tuple(names), 100)}")
        variants += [variant for variant in chosen if variant not in variants]
    datasets = [
        dataset if dataset in (*SYNTHETIC, *COLLECTIONS) else lookup(dataset).name for dataset in options.datasets
    ]
    strange = [dataset for dataset in datasets if dataset not in suite.datasets]
    if strange:
        raise InputError(f"{suite.name} has no dataset {listed(strange)}; it has {listed(suite.datasets, 100)}")
    return replace(
        suite,
        variants=tuple(variants) or suite.variants,
        datasets=tuple(datasets) or suite.datasets,
        seeds=suite.seeds if options.seeds is None else tuple(range(options.seeds)),
    )


def plan_cells(
    suite: Suite, options: RunOptions, notify: Notify = lambda _: None
) -> tuple[list[Cell], tuple[str, ...]]:
    """List the cells of a suite, each once, for the datasets that are present; return also the names of the others."""
    steps = options.max_steps
    if steps is None and find_device("auto").type == "cpu":
        steps = suite.cpu_steps
    chosen = {
        many: [
            (protocol, v.detector, parameters_of(v, protocol, steps or None, many=many))
            for v in suite.variants
            for protocol in suite.protocols
        ]
        for many in (False, True)
    }
    cells: dict[str, Cell] = {}
    missing: list[str] = []
    for dataset in suite.datasets:
        try:
            entities = load_entities(suite, dataset, options, notify)
        except PatchADError as error:
            missing.append(dataset)
            notify(f"{dataset} is left out: {error}")
            continue
        for entity in entities:
            for seed in suite.seeds:
                for protocol, detector, parameters in chosen[entity.channels > 1]:
                    own = _unseen(parameters, family_of(dataset, entity.name), options.weights)
                    cell = Cell(suite.name, protocol, dataset, entity.name, detector, own, seed)
                    cells.setdefault(identity(cell.to_dict()), cell)
    if not cells:
        raise InputError(
            f"nothing of {suite.name} can be run: {listed(missing, 20)} not in {str(options.data)!r}; name the folder "
            "with --data, fetch data with `patchad data get`, or run the suite 'smoke', which needs none"
        )
    return list(cells.values())[: options.limit], tuple(missing)


def _unseen(parameters: Mapping[str, Any], family: str, folder: Path | None) -> Mapping[str, Any]:
    """Name the weights that never saw a family in place of the package's, if there are some."""
    if folder is None or parameters.get("weights") != SHIPPED or not unseen_weights(folder, family).exists():
        return parameters
    return {**parameters, "weights": unseen_weights(folder, family).stem}


def parameters_of(variant: Variant, protocol: str, cpu_steps: int | None, *, many: bool = False) -> dict[str, Any]:
    """Return all parameters of a variant as JSON has them, so that a record stays true when defaults change.

    Parameters
    ----------
    variant, protocol
        What is run, and how it is judged.
    cpu_steps
        Training steps of a detector without a bound of its own; None: no bound.
    many
        Whether the entity has several channels.

    Examples
    --------
    >>> parameters_of(Variant("random", "random"), "open", None)["threshold"]
    'auto'
    >>> found = parameters_of(Variant("patchad-paper", preset="paper"), "paper", 50)
    >>> found["d_model"], found["max_steps"], found["threshold"]
    (40, 50, 'ratio:1')
    """
    preset = PRESETS.get(variant.preset, DETECTORS[variant.detector])
    changes = {**variant.parameters, **(variant.many if many else {})}
    found = preset(**changes).get_params(deep=False)
    found["threshold"] = changes.get("threshold", PROTOCOLS[protocol].threshold)
    if found.get("max_steps", 0) is None:
        found["max_steps"] = cpu_steps
    plain: dict[str, Any] = json.loads(json.dumps({n: v for n, v in found.items() if n not in LEFT_OUT}))
    return plain


def same_parameters(given: Mapping[str, Any], wanted: Mapping[str, Any], free: Collection[str] = ()) -> bool:
    """Return whether a record's parameters are those that are wanted, but for `free` ones.

    A parameter that came after the record says nothing about it, unless it is one of `FORMERLY`.

    Examples
    --------
    >>> same_parameters({"window": 60}, {"window": 60, "direction": "both"})
    True
    >>> same_parameters({"window": 60}, {"window": 60, "softmax": False})
    False
    """
    found = {**wanted, **{name: value for name, value in FORMERLY.items() if name in wanted}, **given}
    equal = dict.fromkeys((*EVENT_PARAMETERS, *free))
    return bool(found | equal == {**wanted, **equal})


def load_entities(suite: Suite, dataset: str, options: RunOptions, notify: Notify = lambda _: None) -> list[Entity]:
    """Load the entities of a dataset, sampled, joined, thinned and cut as the suite says."""
    if dataset in SYNTHETIC:
        return generate(dataset)[: options.entities]
    if dataset in COLLECTIONS:
        found = read_collection(options.data, dataset)[: options.entities]
        return [entity.whole() for entity in found] if _scores_train(suite) else found
    row = lookup(dataset)
    entities = find(row, options.data)
    if not entities:
        raise InputError(f"no files of it in {str(options.data)!r}; {row.how_to_get}")
    differences = differences_from_published(row, entities)
    if differences:
        notify(f"{dataset} differs from what is published: {'; '.join(map(str, differences))}")
    entities = [entity.thinned(suite.every.get(dataset, 1)) for entity in entities]
    if dataset in suite.joined:
        return [join(entities, dataset)]
    if suite.sample is not None:
        entities = _sampled(dataset, entities, suite.sample[dataset], notify)
    return [_cut(entity, suite) for entity in entities[: options.entities]]


def _scores_train(suite: Suite) -> bool:
    return any(PROTOCOLS[protocol].whole for protocol in suite.protocols)


def _sampled(dataset: str, entities: Sequence[Entity], sample: Sequence[str], notify: Notify) -> list[Entity]:
    by_name = {entity.name: entity for entity in entities}
    absent = [name for name in sample if name not in by_name]
    if absent:
        notify(f"{dataset}: {listed(absent)} of the sample are missing")
    if len(absent) == len(sample):
        raise InputError(f"none of the sample's entities is present: {listed(sample)}")
    return [by_name[name] for name in sample if name in by_name]


def _cut(entity: Entity, suite: Suite) -> Entity:
    train = entity.train[-suite.train_rows :] if suite.train_rows else entity.train
    return Entity(entity.name, train, entity.test[: suite.test_rows], entity.labels[: suite.test_rows])
