"""Share fitted models on the Hugging Face Hub: one safetensors file, and a card that is written from it. No pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchad import __version__
from patchad.detectors.base import Detector
from patchad.detectors.describing import describe_model
from patchad.detectors.registry import load
from patchad.errors import MissingExtraError

try:
    from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, constants, hf_hub_download
except ImportError as error:
    raise MissingExtraError("huggingface_hub", "hub") from error

CARD = """\
---
{data}
---

# {title}

A model of PatchAD for time-series anomaly detection, fitted on normal operation.

```python
from patchad.adapters.huggingface import SharedModel

detector = SharedModel.from_pretrained("{title}").detector
detector.detect(X).events  # X: the channels below, by name
```

| | |
| --- | --- |
{facts}

The file is safetensors with a checksum; nothing is ever unpickled. It keeps scores of train and normal windows of it:
share it only if the data may be shared.
"""


class SharedModel(ModelHubMixin):
    """A fitted detector with `save_pretrained`, `push_to_hub` and `from_pretrained`.

    Parameters
    ----------
    detector
        Fitted.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from patchad import make
    >>> rows = np.random.default_rng(0).normal(size=(300, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = SharedModel(make("moving_zscore").fit(rows)).save_pretrained(folder)
    ...     SharedModel.from_pretrained(folder).detector.name
    'moving_zscore'
    """

    _hub_mixin_config: dict[str, Any] = {}  # noqa: RUF012 - as declared there; ours is written by `_save_pretrained`

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self._facts: dict[str, str] = {}

    def generate_model_card(self, *, title: str = "a model of PatchAD", **metadata: Any) -> ModelCard:
        """Write the card from the model file that was saved last.

        Parameters
        ----------
        title
            The name of the repository.
        metadata
            What `ModelCardData` knows, as `license` and `tags`.
        """
        tags = ["time-series", "anomaly-detection", *metadata.pop("tags", [])]
        data = ModelCardData(library_name="patchad", tags=tags, **metadata)
        facts = "\n".join(f"| {name} | {_cell(value)} |" for name, value in self._facts.items())
        return ModelCard(CARD.format(data=data.to_yaml(), title=title, facts=facts))

    def _save_pretrained(self, save_directory: Path) -> None:
        path = self.detector.save(save_directory / constants.SAFETENSORS_SINGLE_FILE)
        self._facts = describe_model(path)
        config = {"library": "patchad", "patchad_version": __version__, "kind": self.detector.name}
        (save_directory / constants.CONFIG_NAME).write_text(json.dumps(config, indent=2))

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **download: Any) -> SharedModel:
        name = constants.SAFETENSORS_SINGLE_FILE
        if Path(model_id).is_dir():
            return cls(load(Path(model_id) / name))
        return cls(load(hf_hub_download(repo_id=model_id, filename=name, **download)))


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
