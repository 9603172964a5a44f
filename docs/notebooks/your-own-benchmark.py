# %% [markdown]
# # Your own benchmark
#
# Which detector is best on *your* data? Take series whose faults you know, let every candidate learn from rows without
# faults only, and measure on the rest.
#
# Here three simulated plants stand for your series.

# %%
import pandas as pd

from patchad import make, metrics
from patchad.datasets.plant import FAULTS, simulate_plant

series = {}
for seed in (0, 2, 4):
    normal, broken = simulate_plant(2500, seed=seed), simulate_plant(2400, seed=seed + 1, kinds=tuple(FAULTS)[1:5])
    series[f"plant {seed}"] = (normal.values, broken.values, broken.labels)
{name: (train.shape, test.shape, int(labels.sum())) for name, (train, test, labels) in series.items()}

# %% [markdown]
# ## Measure
#
# Every detector has one interface, so a loop is all it takes. Two questions, two measures: does the score rise where
# the faults are (VUS-PR), and are the events right at the level that the detector chose itself (event F1)?
# `random` is the row to look at first: what is hardly better has shown nothing.

# %%
candidates = ("patchad", "sub_pca", "iforest", "moving_zscore", "random")
measured = []
for name in candidates:
    for place, (train, test, labels) in series.items():
        found = make(name).fit(train).detect(test)
        measured.append(
            {
                "detector": name,
                "series": place,
                "VUS-PR": metrics.vus(labels=labels, scores=found.scores, window=48).pr,
                "event F1": metrics.event_f1(labels=labels, alarms=found.alarms),
                "events": len(found.events),
            }
        )
table = pd.DataFrame(measured)
table.groupby("detector")[["VUS-PR", "event F1", "events"]].mean().sort_values("VUS-PR", ascending=False).round(2)

# %% [markdown]
# Three series are few. The spread between them says how much the order above is worth.

# %%
table.pivot(index="detector", columns="series", values="VUS-PR").round(2)

# %% [markdown]
# ## Keep records
#
# `patchad bench` does the same with records that hold every setting, version and checksum, resumes after an
# interruption and makes tables with confidence intervals. It takes any series in the layout of TSB-AD: a csv file whose
# last column is the label and whose name says how many rows are train.

# %%
import subprocess
import sys
from pathlib import Path

import numpy as np

folder = Path("data/TSB-AD-M")
folder.mkdir(parents=True)
for number, (train, test, labels) in enumerate(series.values(), start=1):
    rows = pd.DataFrame(np.concatenate([train, test])[:, :5].round(4))
    rows["Label"] = np.concatenate([np.zeros(len(train), dtype=int), labels.astype(int)])
    first = len(train) + int(labels.argmax())
    rows.to_csv(folder / f"{number:03}_Plant_id_{number}_Facility_tr_{len(train)}_1st_{first}.csv", index=False)


def patchad(command):  # as in a terminal: patchad bench ...
    return subprocess.run(
        [sys.executable, "-m", "patchad", *command.split()], check=True, capture_output=True, text=True
    ).stdout


patchad("bench run tsb-ad --data data -o own.jsonl --detectors sub_pca,random --seeds 1 --workers 1")
print(patchad("bench table own.jsonl"))

# %% [markdown]
# Next: [metrics](../metrics.md) say what each measure rewards, [benchmarks](../benchmark.md) what a record holds, and
# [the architecture](../architecture.md) where a detector of your own goes.
