# %% [markdown]
# # Alarms and feedback
#
# How many false events you are ready to see, what you know about your plant, and what you say of an event afterwards:
# none of it needs another fit.

# %%
import pandas as pd

from patchad import PatchAD
from patchad.datasets.plant import FAULTS, simulate_plant


def to_frame(run):
    return pd.DataFrame(run.values, columns=run.channels, index=pd.DatetimeIndex(run.times, name="time"))


def show(found):
    events = [(e.start_time, len(e), round(e.severity), e.channels[0][0]) for e in found.events]
    return pd.DataFrame(events, columns=["start", "rows", "severity", "to blame"])


normal = to_frame(simulate_plant(4000, seed=0))
today = to_frame(simulate_plant(3600, seed=1, kinds=tuple(FAULTS), start="2024-02-01"))
detector = PatchAD().fit(normal)
show(detector.detect(today))

# %% [markdown]
# ## The promise
#
# `false_alarms` is the number of false events that you expect in 10,000 normal rows. The level follows from it, by rows
# of train that the net never saw.

# %%
for promised in (10.0, 1.0, 0.1):
    detector.set_false_alarms(promised)
    events = detector.detect(today).events
    print(f"{promised:>4} in 10,000 rows: level {detector.threshold_.level:.2f}, {len(events)} events")
detector.set_false_alarms(1.0)
calm = to_frame(simulate_plant(10_000, seed=7, start="2024-03-01"))
print(len(detector.detect(calm).events), "false events in 10,000 rows without a fault")

# %% [markdown]
# ## What you know
#
# Suppose that the speed of the pump only matters when it falls, that changes of `vibration` under 5 units do not
# matter, and that people worked at the pump on the first day at noon.

# %%
detector.set_params(direction={"pump_speed": "down"}, min_change={"vibration": 5.0})
maintenance = [("2024-02-01 12:00", "2024-02-01 14:00")]
fewer = detector.detect(today, quiet=maintenance)
detector.set_params(direction="both", min_change=0.0)
show(fewer)

# %% [markdown]
# ## What you say of an event
#
# The drift of the pump's speed was a test run. `accept` says that such rows are normal; it lasts through `save`.

# %%
test_run = next(event for event in detector.detect(today).events if event.channels[0][0] == "pump_speed")
detector.accept(today, start=test_run.start, stop=test_run.stop)
show(detector.detect(today))

# %% [markdown]
# What was said can be listed, and taken back.

# %%
print(*detector.feedback_, sep="\n")
detector.retract()
show(detector.detect(today))

# %% [markdown]
# `confirm` is the opposite: rows like these stay events, whatever is accepted or adapted to later.
#
# Next: [from scores to events](../thresholds.md) has the rules, [what the operator knows](../operators.md) all options.
