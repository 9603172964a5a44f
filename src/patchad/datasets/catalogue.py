"""What is published about each dataset: sizes, licence, home, and how to get it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from patchad.errors import InputError


@dataclass(frozen=True, slots=True)
class Size:
    """Rows, channels and share of anomalous test rows; None where nothing reliable is published."""

    train: int | None
    test: int | None
    channels: int
    ratio: float | None
    """Anomalous test rows in percent, pooled over the entities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A row of the catalogue."""

    name: str
    about: str
    size: Size
    """The complete dataset as its readers give it."""
    entities: int = 1
    paper: Size | None = None
    """What the PatchAD paper says, where it says something."""
    folders: tuple[str, ...] = ()
    """Folders that may hold it below the root, besides one of its own name."""
    licence: str
    home: str
    on_request: bool = False
    """Whether its owner gives it out only on request, so that it cannot be downloaded."""
    note: str = ""

    @property
    def how_to_get(self) -> str:
        """One sentence on where the files come from."""
        if self.on_request:
            return f"request access at {self.home} and unpack the files into a folder {self.name}"
        if self.name == "GECCO-challenge":
            return f"see {self.home}, and save the arrays of the challenge's sets as GECCO/GECCO_challenge_split.npz"
        return f"run `patchad data get {self.name}`, or take it from {self.home}"


_ITRUST = "https://itrust.sutd.edu.sg/itrust-labs_datasets/"
_TELEMANOM = "https://github.com/khundman/telemanom"
_TSB_AD = "https://github.com/TheDatumOrg/TSB-AD"
_GECCO = "https://zenodo.org/records/3884398"

_ROWS = (
    Dataset(
        name="MSL",
        about="telemetry of the Curiosity rover on Mars, 27 telemetry channels with their commands",
        size=Size(58317, 73729, 55, 10.53),
        entities=27,
        paper=Size(58317, 73729, 55, 10.5),
        folders=("SMAP_MSL", "telemanom", "NASA"),
        licence="Caltech/JPL, BSD style",
        home=_TELEMANOM,
        note="An entity is a telemetry channel: one measurement and 54 command indicators.",
    ),
    Dataset(
        name="SMAP",
        about="telemetry of a soil-moisture satellite, 53 telemetry channels with their commands",
        size=Size(135183, 427617, 25, 12.79),
        entities=53,
        paper=Size(135183, 427617, 25, 12.8),
        folders=("SMAP_MSL", "telemanom", "NASA"),
        licence="Caltech/JPL, BSD style",
        home=_TELEMANOM,
        note="Channel P-2 is listed twice in the label file and left out; the published lengths are without it.",
    ),
    Dataset(
        name="PSM",
        about="pooled metrics of eBay's application servers",
        size=Size(132481, 87841, 25, 27.76),
        paper=Size(132481, 87841, 25, 27.8),
        folders=("RANSynCoders",),
        licence="CC BY 4.0",
        home="https://github.com/eBay/RANSynCoders",
        note="Missing values become 0, as in the loaders of benchmark repositories.",
    ),
    Dataset(
        name="SWaT",
        about="a water treatment testbed, eleven days, the last four under attack",
        size=Size(495000, 449919, 51, 12.14),
        paper=Size(99000, 89984, 26, 12.2),
        licence="iTrust, on request",
        home=_ITRUST,
        on_request=True,
        note=(
            "`every=5` gives the paper's rows. The paper's 26 channels are not named, so all 51 are used. Sizes are "
            "those of SWaT_Dataset_Normal_v1 and SWaT_Dataset_Attack_v0."
        ),
    ),
    Dataset(
        name="WADI",
        about="a water distribution testbed, sixteen days, the last two under attack",
        size=Size(1209601, 172801, 123, 5.76),
        paper=Size(241921, 34561, 123, 5.74),
        licence="iTrust, on request",
        home=_ITRUST,
        on_request=True,
        note=(
            "`every=5` gives the paper's rows. Sizes are those of the release of 2017 (A1), which has no label column: "
            "the attacks' times come from its documentation. The release of 2019 (A2) is read too. Four channels "
            "without a single value are left out of 127."
        ),
    ),
    Dataset(
        name="SWAN",
        about="magnetic-field parameters of solar regions, before flares and in quiet times (NIPS-TS-SWAN)",
        size=Size(60000, 60000, 38, 32.6),
        paper=Size(60000, 60000, 38, 32.6),
        folders=("NIPS_TS_Swan", "NIPS_TS_SWAN", "swan_sf"),
        licence="none stated with the file; SWAN-SF is published as open data",
        home="https://doi.org/10.7910/DVN/EBCFKM",
        note="2,000 slices of 60 rows, sorted by time; the first half is train.",
    ),
    Dataset(
        name="GECCO",
        about="drinking-water quality at a treatment works, the 2018 challenge's train set in halves (NIPS-TS-GECCO)",
        size=Size(69260, 69261, 9, 1.05),
        paper=Size(69260, 69261, 9, 1.1),
        folders=("NIPS_TS_GECCO", "NIPS_TS_Water"),
        licence="CC BY 4.0",
        home=_GECCO,
        note="Rows with a missing value are dropped. The train half holds 1.44 % event rows, unlabelled.",
    ),
    Dataset(
        name="GECCO-challenge",
        about="drinking-water quality, with the 2018 challenge's own train and test sets",
        size=Size(138521, 115086, 9, 2.02),
        folders=("GECCO",),
        licence="CC BY 4.0",
        home=_GECCO,
        note="Public copies are in R's own format; save their arrays in one of these layouts.",
    ),
    Dataset(
        name="UCR",
        about="the UCR anomaly archive of 2021, 250 series with one anomaly each",
        size=Size(None, None, 1, None),
        entities=250,
        folders=("UCR_Anomaly_FullData", "UCR_TimeSeriesAnomalyDatasets2021", "AnomalyDatasets_2021"),
        licence="none stated; free download",
        home="https://www.cs.ucr.edu/~eamonn/time_series_data_2018/",
        note="Series 203 has its anomaly inside the train part: its labels are all normal. Leave it out of averages.",
    ),
    Dataset(
        name="SMD",
        about="metrics of 28 servers of an internet company",
        size=Size(708405, 708420, 38, 4.16),
        entities=28,
        folders=("ServerMachineDataset", "OmniAnomaly/ServerMachineDataset"),
        licence="MIT",
        home="https://github.com/NetManAIOps/OmniAnomaly",
    ),
    Dataset(
        name="ASD",
        about="metrics of 12 application servers",
        size=Size(102331, 51840, 19, 4.6),
        entities=12,
        folders=("InterFusion/data/processed",),
        licence="MIT",
        home="https://github.com/zhhlee/InterFusion",
        note="Native files are pickles; they are opened by a reader that builds arrays and refuses anything else.",
    ),
    Dataset(
        name="SKAB",
        about="34 experiments on a water circuit with pump and valves",
        size=Size(13600, 23801, 8, 53.66),
        entities=34,
        licence="GPL-3.0",
        home="https://github.com/waico/SKAB",
        note="The first 400 rows of each experiment are train.",
    ),
    Dataset(
        name="NAB",
        about="47 real series of the Numenta anomaly benchmark",
        size=Size(26072, 295134, 1, 10.53),
        entities=47,
        licence="MIT",
        home="https://github.com/numenta/NAB",
        note="The first 15 %, at most 750 rows, of each series are train; the 11 artificial series are left out.",
    ),
    Dataset(
        name="Exathlon",
        about="32 metrics of Spark jobs, from TSB-AD-U",
        size=Size(345152, 1065275, 1, 14.49),
        entities=32,
        folders=("TSB-AD-U/Exathlon", "TSB-AD-U"),
        licence="Apache-2.0",
        home=_TSB_AD,
    ),
    Dataset(
        name="IOPS",
        about="17 performance indicators of web services, the AIOps challenge's, from TSB-AD-U",
        size=Size(89201, 1148268, 1, 1.62),
        entities=17,
        folders=("TSB-AD-U/IOPS", "TSB-AD-U"),
        licence="MIT (none stated in TSB-AD's table)",
        home=_TSB_AD,
    ),
)

DATASETS: Mapping[str, Dataset] = {row.name: row for row in _ROWS}
"""Every dataset that can be loaded, by name."""


def lookup(name: str) -> Dataset:
    """Find a dataset by name, in any case, with or without the prefix ``NIPS-TS-``.

    Examples
    --------
    >>> lookup("nips-ts-swan").name
    'SWAN'
    """
    plain = normalised(name)
    if plain.startswith("nips-ts-"):
        plain = plain.removeprefix("nips-ts-")
        plain = "gecco" if plain == "water" else plain
    by_name = {normalised(known): row for known, row in DATASETS.items()}
    if plain in by_name:
        return by_name[plain]
    near = difflib.get_close_matches(plain, by_name, n=1)
    hint = f"did you mean {by_name[near[0]].name}? " if near else ""
    raise InputError(f"there is no dataset {name!r}; {hint}known are {', '.join(DATASETS)}")


def normalised(name: str) -> str:
    """Write a name in lower case with hyphens, as names are compared."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def markdown() -> str:
    """Write the catalogue as a Markdown table.

    Examples
    --------
    >>> print(markdown().splitlines()[2])
    | MSL | 27 | 58,317 | 73,729 | 55 | 10.53 | 58,317 / 73,729 / 55 / 10.5 | Caltech/JPL, BSD style |
    """
    lines = [
        "| dataset | entities | train rows | test rows | channels | anomalous % | in the paper | licence |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for row in DATASETS.values():
        size = row.size
        paper = (
            ""
            if row.paper is None
            else " / ".join(
                _number(value) for value in (row.paper.train, row.paper.test, row.paper.channels, row.paper.ratio)
            )
        )
        cells = (row.name, row.entities, size.train, size.test, size.channels, size.ratio, paper, row.licence)
        lines.append("| " + " | ".join(_number(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _number(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
