"""Detections to one self-contained HTML page: a summary, a timeline, and a card for every event.

The page carries plotly's JavaScript from the installed package and makes no network request. Names of channels and
series are untrusted: templates escape them, and the page's policy admits no script but plotly's and `page.js`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import ArrayLike

from patchad.data.names import visible
from patchad.report.panels import PANELS, contents
from patchad.report.payload import section_payload
from patchad.report.section import Budget, Section
from patchad.report.truth import LabelComparison, compare_with_labels
from patchad.report.wording import breakable, counted
from patchad.results.detection import Detection


def _shown(value: Any) -> Any:
    """Write out hidden characters of all text that is not yet HTML."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


TEMPLATES = Environment(
    autoescape=True,
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    loader=PackageLoader("patchad.report"),
)
TEMPLATES.filters |= {"percent": "{:.0%}".format, "counted": counted, "breakable": breakable}
# The filter `tojson` also escapes `<`, `>` and `&`, so that no name in a payload can end its script element.
TEMPLATES.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}


@dataclass(frozen=True, slots=True, eq=False)
class Chapter:
    """One series of a page."""

    name: str
    """Heading; empty for a series that is alone on its page."""
    detection: Detection
    comparison: LabelComparison | None = None
    """How the events compare with labels, where there are any."""

    @classmethod
    def of(cls, name: str, detection: Detection, labels: ArrayLike | None = None) -> Chapter:
        """Build a chapter; labels are 1 or True where a row is anomalous."""
        return cls(name, detection, None if labels is None else compare_with_labels(detection, labels))


def render_page(chapters: Sequence[Chapter], title: str = "PatchAD report") -> bytes:
    """Return one HTML page for one or several series."""
    from plotly.offline import get_plotlyjs

    budget = Budget().shared_by(len(chapters)) if len(chapters) > 1 else Budget()
    sections = [
        Section.of(number, chapter.name, chapter.detection, chapter.comparison, budget)
        for number, chapter in enumerate(chapters)
    ]
    scripts = [str(get_plotlyjs()), asset("page.js")]
    page = TEMPLATES.get_template("page.html")
    return page.render(
        title=title,
        policy=policy_of(scripts),
        style=asset("page.css"),
        contents=contents(sections),
        sections=[_rendered(section) for section in sections],
        scripts=scripts,
    ).encode()


def _rendered(section: Section) -> dict[str, Any]:
    """Return what `page.html` needs of a section: the panels that have something to show, and the payload."""
    panels = [(template, panel(section)) for template, panel in PANELS]
    return {
        "number": section.number,
        "name": section.name,
        "panels": [(template, data) for template, data in panels if data is not None],
        "payload": section_payload(section),
    }


def asset(name: str, package: str = "patchad.report") -> str:
    """Return the text of a style or a script."""
    return files(package).joinpath("templates", name).read_text(encoding="utf-8")


def policy_of(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy for these scripts and inline style; no other script and no network."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
