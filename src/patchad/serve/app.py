"""The service: routes, from requests to the station and back."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import StreamingResponse

from patchad import __version__
from patchad.serve import bodies, models, problems, schemas, seen, views
from patchad.serve.bodies import CSV, JSON, PARQUET, media_type, read_body, read_json, read_rows
from patchad.serve.history import MOST_ROWS, curves_of, export_csv
from patchad.serve.hub import Hub
from patchad.serve.page import add_page
from patchad.serve.problems import Problem, busy
from patchad.serve.security import Guard
from patchad.serve.settings import Limits
from patchad.serve.shield import Shield
from patchad.serve.station import Station

MODEL_TYPES = ("application/octet-stream", "application/vnd.safetensors")
LONGEST_KEY = 200
LARGEST_INDEX = 2**62


class Service:
    """What the routes share: the station, the hub, and threads for work outside the event loop."""

    def __init__(self, station: Station, limits: Limits) -> None:
        self.station, self.limits = station, limits
        self.hub = Hub(station, limits)
        self._readers = ThreadPoolExecutor(4, "patchad-reader")
        self._judges = ThreadPoolExecutor(1, "patchad-detect")
        self._detections = 0
        self._copy: tuple[Any, Any] = (None, None)
        """The model in force, and a copy of it that `/v1/detect` uses: nets are not shared between threads."""

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Take requests; at the end, take those that wait, and store what came of them."""
        self.hub.start()
        if not self.station.alive:
            self.station.start()
        yield
        self.hub.close()
        await asyncio.to_thread(self.station.stop)
        self._readers.shutdown()
        self._judges.shutdown(cancel_futures=True)

    async def read(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Ask the state, in a thread."""

        def asked() -> Any:
            with self.station.records() as records:
                return work(self.station, records, *arguments, **named)

        return await self._within(asyncio.get_running_loop().run_in_executor(self._readers, asked))

    async def judge(self, work: Callable[[Any], Any]) -> Any:
        """Do something with the model in force, in a thread of its own."""
        if self._detections >= self.limits.detections:
            self.station.measures.turned_away.inc()
            raise busy(f"{self._detections} detections run or wait, which is the limit; send it again in a while")
        self._detections += 1

        def judged() -> Any:
            if self._copy[0] is not self.station.detector:
                self._copy = (self.station.detector, copy.deepcopy(self.station.detector))
            return work(self._copy[1])

        future = asyncio.get_running_loop().run_in_executor(self._judges, judged)
        future.add_done_callback(self._one_less)
        return await self._within(future)

    async def change(self, work: Callable[[], Any]) -> Any:
        """Change streams, in their thread."""
        return await self._within(asyncio.wrap_future(self.station.run(work)))

    async def take(self, key: str, found: dict[str, Any]) -> list[dict[str, Any]]:
        """Give rows to a stream; return what they made final."""
        columns = self.station.streams.columns
        loop = asyncio.get_running_loop()
        rows, times = await loop.run_in_executor(self._readers, read_rows, found, columns, self.limits)
        if not rows:
            return []

        def timed(newest: Any) -> list[Any]:
            return bodies.timed_rows(self.station.find_key(key), rows, times, newest)

        answer = self.station.submit(key, timed, len(rows), first_index(found))
        return await self._within(asyncio.wrap_future(answer))  # type: ignore[no-any-return]

    def _one_less(self, _: Any) -> None:
        self._detections -= 1

    async def _within(self, work: Awaitable[Any]) -> Any:
        """Wait for work, as long as an answer may take; what was begun goes on."""
        try:
            return await asyncio.wait_for(asyncio.shield(work), self.limits.seconds)
        except TimeoutError:
            raise Problem(
                503,
                f"there was no answer within {self.limits.seconds:g} s, and it is not known whether it was done; send "
                "it again, rows with their first_index",
                headers={"Retry-After": "5"},
            ) from None


def make_app(station: Station, guard: Guard | None = None, limits: Limits | None = None) -> FastAPI:
    """Return the service of a station.

    Parameters
    ----------
    station
        Owns the streams; started and stopped with the app.
    guard
        Who may ask for what; None: everybody on this machine.
    limits
        What is admitted.
    """
    service = Service(station, limits or station.limits)
    app = FastAPI(
        title="PatchAD",
        version=__version__,
        description=schemas.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=service.running,
        responses=schemas.PROBLEMS,
    )
    app.state.service = service
    problems.install(app)
    _add_streams(app, service)
    _add_history(app, service)
    _add_views(app, service)
    _add_events(app, service)
    _add_models(app, service)
    _add_signs(app, service)
    add_page(app)
    app.add_middleware(Shield, guard=guard or Guard(), measures=station.measures)
    return app


def first_index(found: dict[str, Any]) -> int | None:
    """Return the number of the first row, where a caller says it."""
    first = found.get("first_index")
    if first is None:
        return None
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first < LARGEST_INDEX:
        raise Problem(422, f"first_index is {str(first)[:40]!r}; a whole number from 0 on is needed")
    return first


def answer(content: Any, status: int = 200) -> Response:
    """Return JSON."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, {"Cache-Control": "no-store"}, JSON)


def _checked_key(key: str) -> str:
    if not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise Problem(422, f"the key of a stream is {key[:40]!r}; 1 to {LONGEST_KEY} printable characters are needed")
    return key


def _add_streams(app: FastAPI, service: Service) -> None:
    @app.post("/v1/detect", openapi_extra=schemas.DETECT, response_model=schemas.Found, tags=["detection"])
    async def detect(request: Request) -> Response:
        """Find events in rows that are sent at once; nothing is kept."""
        kind = media_type(request, JSON, CSV, PARQUET)
        body = await read_body(request, service.limits)
        columns, limits = service.station.streams.columns, service.limits

        def table() -> Any:
            if kind != JSON:
                return bodies.table_of_file(body, kind, columns, limits)
            rows, times = read_rows(read_json(body, ("rows", "times"), ("rows",)), columns, limits)
            return bodies.table_of_rows(rows, times, columns)

        return answer(await service.judge(lambda detector: views.detection_fields(detector.detect(table()))))

    @app.post("/v1/streams/{key:path}/rows", openapi_extra=schemas.ROWS, response_model=schemas.Told, tags=["streams"])
    async def rows(key: str, request: Request) -> Response:
        """Take the next rows of a stream, which begins with its first; all of them or, if one is refused, none.

        What is answered with 200 is stored. A request without an answer may be sent again with its `first_index`.
        """
        media_type(request, JSON)
        found = read_json(await read_body(request, service.limits), ("rows", "times", "first_index"), ("rows",))
        return answer({"verdicts": await service.take(_checked_key(key), found)})

    @app.get("/v1/streams", response_model=schemas.Streams, tags=["streams"])
    async def streams() -> Response:
        """List the streams, worst first."""
        return answer({"streams": await service.read(views.streams_of), "since": service.station.since})

    @app.get("/v1/streams/{key:path}/events", response_model=schemas.Events, tags=["streams"])
    async def events(
        key: str, withdrawn: bool = Query(False, description="Also events that turned out to be none.")
    ) -> Response:
        """List the events of a stream as they are now, in the order of their rows."""
        own = service.station.find_key(_checked_key(key))
        return answer({"events": await service.read(views.events_of, own, withdrawn=withdrawn)})


def _add_history(app: FastAPI, service: Service) -> None:
    @app.get("/v1/streams/{key:path}/history", response_model=schemas.Curves, tags=["streams"])
    async def history(
        key: str,
        since: float | None = Query(None, description="Seconds since 1970, or the number that times are."),
        until: float | None = Query(None),
        channels: str = Query("", description="Channels, separated by commas; none: those most to blame lately."),
        rows: int = Query(MOST_ROWS, ge=1, le=MOST_ROWS, description="Rows, the newest."),
        points: int = Query(800, ge=2, le=5_000, description="Points of a curve, at most."),
    ) -> Response:
        """Return scores, levels and channels of a stream over a time, thinned out."""
        own = service.station.find_key(_checked_key(key))
        wanted = [name for name in channels.split(",") if name]
        return answer(await service.read(curves_of, own, since, until, wanted, points, rows))

    @app.get("/v1/streams/{key:path}/export.csv", response_class=Response, tags=["streams"])
    async def export(
        key: str,
        since: float | None = None,
        until: float | None = None,
        rows: int = Query(MOST_ROWS, ge=1, le=MOST_ROWS, description="Rows, the newest."),
    ) -> Response:
        """Return the rows of a stream over a time with what was said of them, as csv."""
        own = service.station.find_key(_checked_key(key))
        return Response(await service.read(export_csv, own, since, until, rows), media_type=CSV)


def _add_views(app: FastAPI, service: Service) -> None:
    @app.get("/v1/streams/{key:path}/expected", response_model=schemas.Expected, tags=["streams"])
    async def expected(
        key: str,
        event: str = Query("", description="Id of an event: its channels most to blame, in the rows around it."),
        channel: str = Query(
            "", description="Without an event: this channel, in the newest 300 rows of a time and some before."
        ),
        since: float | None = Query(None, description="Seconds since 1970, or the number that times are."),
        until: float | None = Query(None),
    ) -> Response:
        """Return observed values against those that the model in force expects, with what is normal around them."""
        if bool(event) == bool(channel):
            raise Problem(422, "give ?event= or ?channel=, one of them")
        own = service.station.find_key(_checked_key(key))
        asked = (seen.around_event, own, event) if event else (seen.around_view, own, channel, since, until)
        around = await service.read(*asked)
        return answer(await service.judge(partial(seen.expected_of, around)))

    @app.get("/v1/streams/{key:path}/export.html", response_class=Response, tags=["streams"])
    async def export_report(
        key: str,
        since: float | None = None,
        until: float | None = None,
        rows: int = Query(MOST_ROWS, ge=1, le=MOST_ROWS, description="Rows, the newest."),
    ) -> Response:
        """Return the rows of a stream over a time with what was said of them, as the report: one page of HTML."""
        own = service.station.find_key(_checked_key(key))
        found = await service.read(seen.seen_of, own, since, until, rows)
        page = await service.judge(partial(seen.report_of, found))
        headers = {"Content-Disposition": 'attachment; filename="report.html"', "Cache-Control": "no-store"}
        return Response(page, headers=headers, media_type="text/html; charset=utf-8")


def _add_events(app: FastAPI, service: Service) -> None:
    @app.get("/v1/events", response_model=schemas.Events, tags=["events"])
    async def newest(
        state: list[Literal["suspected", "open", "closed", "withdrawn"]] = Query(  # noqa: B008 - as FastAPI has it
            [], description="Only events in these states; none: all but withdrawn ones."
        ),
        most: int = Query(100, ge=1, le=1_000, description="Events, the newest."),
    ) -> Response:
        """List the newest events of all streams, newest first; for dashboards."""
        return answer({"events": await service.read(views.newest_events, state, most)})

    @app.post(
        "/v1/events/{event_id}/{verb}", openapi_extra=schemas.REMARK, response_model=schemas.Said, tags=["events"]
    )
    async def say(
        event_id: str,
        verb: Literal["acknowledge", "accept", "confirm", "comment"],
        request: Request,
        key: str | None = Query(None, description="The stream, where several have an event with this id."),
    ) -> Response:
        """Say something of an event.

        `acknowledge`: somebody has seen it. `accept`: this was normal, and what is like it is no event from now on.
        `confirm`: it stays strange, whatever is accepted. `comment`: a text.
        """
        media_type(request, JSON)
        body = await read_body(request, service.limits, 2**16)
        text, author = _remark_of(read_json(body, ("text", "author")), needed=verb == "comment")
        event = await service.read(views.find_event, event_id, key)
        station = service.station
        own = station.find_key(event["key"])

        def work() -> None:
            if verb in ("accept", "confirm"):
                wiser = models.judge_event(station, event | {"key": own}, accepted=verb == "accept")
                models.swap(station, wiser, verb)
            station.store.remark(own, event_id, verb, author=author, text=text)

        await service.change(work)
        found = await service.read(views.find_event, event_id, event["key"])
        service.hub.tell("remark", found)
        return answer({"event": found})


def _remark_of(found: dict[str, Any], *, needed: bool) -> tuple[str, str]:
    values = []
    for name in ("text", "author"):
        value = found.get(name) or ""
        if not isinstance(value, str) or len(value) > 10_000:
            raise Problem(422, f"{name!r} is {str(value)[:40]!r}; a text of up to 10,000 characters is needed")
        values.append(value)
    if needed and not values[0].strip():
        raise Problem(422, "a comment needs a 'text'; send {'text': ...}")
    return values[0], values[1]


def _add_models(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", response_model=schemas.Model, tags=["models"])
    async def model() -> Response:
        """Describe the model in force: what it learned, what it promises, and what came of that."""
        return answer(await service.read(views.model_of))

    @app.post("/v1/models", openapi_extra=schemas.UPLOAD, response_model=schemas.Swapped, tags=["models"])
    async def upload(request: Request) -> Response:
        """Take a model file, check it, try it on the newest stored rows, and let the streams go on with it.

        One that is damaged, of another shape, or that raises more events than it promises is refused with the reason,
        and the one in force stays.
        """
        media_type(request, *MODEL_TYPES)
        body = await read_body(request, service.limits)
        station = service.station

        def prepare(_: Any, records: Any) -> tuple[Any, dict[str, Any]]:
            detector = models.detector_of(body)
            station.configuration.alarms.apply(detector)
            if len(station.streams):
                _check_channels(detector, station.detector)
            return detector, models.try_out(detector, records)

        detector, trial = await service.read(prepare)
        await service.change(lambda: models.swap(station, detector, "upload"))
        service.hub.tell("model", {})
        return answer({"checksum": (await service.read(views.model_of))["checksum"], "trial": trial})


def _check_channels(new: Any, old: Any) -> None:
    if new.channels_ != old.channels_:
        raise Problem(
            409,
            f"the model has the channels {list(new.channels_)[:8]}, the streams {list(old.channels_)[:8]}; start anew",
        )


def _add_signs(app: FastAPI, service: Service) -> None:
    @app.get("/v1/live", response_class=StreamingResponse, tags=["live"], responses=schemas.LIVE)
    async def live() -> StreamingResponse:
        """Tell what happens as server-sent events: `rows`, `event`, `remark`, `model`; `reset`: read all anew."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(await service.hub.listen(), media_type="text/event-stream", headers=headers)

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=schemas.Sign, tags=["signs"])
    async def healthz() -> Response:
        """Say whether the process works."""
        if not service.station.alive:
            raise Problem(503, "the thread that takes rows has ended")
        return answer({"status": "ok"})

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", response_model=schemas.Sign, tags=["signs"])
    async def readyz() -> Response:
        """Say whether rows are taken now."""
        station = service.station
        if not station.alive or station.queued >= service.limits.queue:
            raise Problem(503, "rows are not taken now; the service stops, or has too much to do")
        return answer({"status": "ready"})

    @app.get("/metrics", response_class=Response, tags=["signs"], responses=schemas.METRICS)
    async def metrics() -> Response:
        """Return counters and gauges for Prometheus."""
        text = await service.read(lambda station, _: station.measures.text())
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
