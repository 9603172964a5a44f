"""A progress bar for training, on stderr: steps done, loss, time left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchad.model.training import Progress


@contextmanager
def training_bar(show: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Yield a function to call with every `Progress`, or None if nothing is shown."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}, held out {task.fields[held_out]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print("training has begun")  # a log shows the bar only when it is full
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("training", loss="-", held_out="-")

        def watch(progress: Progress) -> None:
            fields = {"loss": f"{progress.loss:.4f}"}
            if not math.isnan(progress.held_out):
                fields["held_out"] = f"{progress.held_out:.4f}"
            bar.update(task, completed=progress.step, total=progress.steps, **fields)  # type: ignore[arg-type]

        yield watch
