# %% [markdown]
# # Quick start
#
# From a table of normal operation to events with the sensors to blame.
#
# The data is simulated: a pumping station with 16 sensors, one row a minute. Yours is a frame that `pandas.read_csv`
# reads, with one row per moment and one column per sensor.

# %%
import pandas as pd

from patchad.datasets.plant import FAULTS, simulate_plant


def to_frame(run):
    return pd.DataFrame(run.values, columns=run.channels, index=pd.DatetimeIndex(run.times, name="time"))


normal = to_frame(simulate_plant(4000, seed=0))
broken = simulate_plant(3600, seed=1, kinds=tuple(FAULTS), start="2024-02-01")
today = to_frame(broken)
normal.iloc[:3, :5].round(2)

# %% [markdown]
# ## Fit
#
# `fit` learns what is normal. The net [comes trained](../pretrained.md), so it takes seconds. Nothing else has to be
# said; a window of 120 rows suits most plants.

# %%
from patchad import PatchAD

detector = PatchAD().fit(normal)

# %% [markdown]
# ## Detect
#
# Every event has its rows and times, a severity, and the channels to blame with their shares.

# %%
found = detector.detect(today)
pd.DataFrame(
    {
        "start": [event.start_time for event in found.events],
        "rows": [len(event) for event in found.events],
        "kind": [event.kind for event in found.events],
        "severity": [round(event.severity) for event in found.events],
        "to blame": [event.channels[0][0] for event in found.events],
    }
)

# %% [markdown]
# The simulation knows what it broke. With your data only you do.

# %%
pd.DataFrame(
    [{"start": today.index[fault.start], "fault": fault.kind, "channel": fault.channel} for fault in broken.faults]
)

# %% [markdown]
# ## Look
#
# The score of every row, the level that it is held to, and the channel that the most severe event blames.

# %%
import matplotlib.pyplot as plt

worst = max(found.events, key=lambda event: event.severity)
name = worst.channels[0][0]
around = slice(max(worst.start - 150, 0), worst.stop + 150)

figure, (above, below) = plt.subplots(2, figsize=(9, 4), sharex=True)
above.plot(today.index[around], today[name].iloc[around], lw=1)
above.axvspan(worst.start_time, worst.stop_time, color="tab:red", alpha=0.15)
above.set_title(f"{name}: the most severe event")
below.plot(today.index[around], found.scores[around], lw=1)
below.plot(today.index[around], found.levels[around], lw=1, ls="--")
below.set_ylabel("score, level")
figure.tight_layout()

# %% [markdown]
# For people, `report` writes one HTML page that works offline, with the expected values beside the observed ones.

# %%
found.report("report.html").name

# %% [markdown]
# ## Keep
#
# The model is one file. It holds no code, only numbers and settings.

# %%
from patchad import load

detector.save("pump.safetensors")
again = load("pump.safetensors").detect(today)
assert again.alarms.tolist() == found.alarms.tolist()
len(again.events)

# %% [markdown]
# Next: [alarms and feedback](alarms-and-feedback.md), or the same [on the command line](../quickstart.md).
