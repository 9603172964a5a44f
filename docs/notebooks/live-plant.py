# %% [markdown]
# # A live plant
#
# Rows come one at a time. A stream judges them as `detect` would judge them in the whole series, and says early what it
# suspects.

# %%
import pandas as pd

from patchad import PatchAD, StreamDetector, StreamPool
from patchad.datasets.plant import simulate_plant


def to_frame(run):
    return pd.DataFrame(run.values, columns=run.channels, index=pd.DatetimeIndex(run.times, name="time"))


normal = to_frame(simulate_plant(4000, seed=0))
broken = simulate_plant(1200, seed=3, kinds=("trend", "correlation break"), start="2024-02-01")
today = to_frame(broken)
detector = PatchAD().fit(normal)
broken.faults

# %% [markdown]
# ## Row by row
#
# `push` returns the verdicts that became final, often none; `changes` what is new to tell of events. A suspicion comes
# as soon as the windows so far are strange enough; final scores wait for a window of 120 rows.

# %%
live = detector.stream()
verdicts, told = [], []
for number, (moment, row) in enumerate(today.iloc[:800].iterrows()):
    verdicts += live.push(row, time=moment)
    told += [(number, event.state, event.start, len(event), event.channels[0][0]) for event in live.changes()]
pd.DataFrame(told, columns=["told at row", "state", "start", "rows", "to blame"])

# %% [markdown]
# `outlook` is the newest row, as far as can be told now.

# %%
newest = live.outlook()
newest.index, round(float(newest.score), 2), newest.alarm

# %% [markdown]
# ## A restart
#
# A snapshot holds all that a stream knows, and is no pickle. The process ends here, and another one goes on.

# %%
kept = live.snapshot()
live = StreamDetector.restore(detector, kept)
for moment, row in today.iloc[800:].iterrows():
    verdicts += live.push(row, time=moment)
verdicts += live.flush()
print(f"{len(kept) / 1024:.0f} KiB")

# %% [markdown]
# All verdicts together are those of one `detect` over the day.

# %%
whole = detector.detect(today)
assert [verdict.alarm for verdict in verdicts] == whole.alarms.tolist()
assert [event.id for event in live.events] == [event.id for event in whole.events]

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(9, 2.6))
axes.plot([verdict.score for verdict in verdicts], lw=1)
axes.plot([verdict.level for verdict in verdicts], lw=1, ls="--")
for fault in broken.faults:
    axes.axvspan(fault.start, fault.stop, color="tab:orange", alpha=0.2)
for event in live.events:
    axes.axvspan(event.start, event.stop, ymax=0.06, color="tab:red")
axes.set_title("score and level; shaded: the faults, red below: the events")
figure.tight_layout()

# %% [markdown]
# ## Many pumps
#
# Streams of one model are scored together.

# %%
pool = StreamPool(detector)
pumps = {f"pump {k}": to_frame(simulate_plant(300, seed=10 + k)) for k in range(20)}
final = pool.push_many(pumps)
sum(len(each) for each in final.values())

# %% [markdown]
# Next: [streams](../streaming.md) say when a verdict is final; [`patchad watch`](../live.md) reads rows from MQTT,
# Kafka, Prometheus or files and keeps its state; [`patchad serve`](../serve.md) has a live page.
