"""Train a net with all processes of torchrun; the first one writes the loss curve to the file that is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import waves

from patchad import PatchAD
from patchad.fleet.ranks import join, leave
from patchad.model.ranks import current_ranks, joint_training


def main() -> None:
    join()
    with joint_training():
        first = current_ranks().number == 0
        detector = PatchAD(**json.loads(sys.argv[2])).fit(waves(300))
    if first:
        Path(sys.argv[1]).write_text(json.dumps([(one.loss, one.held_out) for one in detector.history_]))
    leave()


if __name__ == "__main__":
    main()
