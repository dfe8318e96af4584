"""Sends spans and evaluations over OTLP/HTTP, by OpenTelemetry's own exporters. They block: each call has a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from requests.adapters import HTTPAdapter

from conch.clients import REQUESTS_CAS, check_file, is_own_machine, proxy_of, tls_context
from conch.config import masked
from conch_services.otel.spans import CycleSpan, ScoreEvent

EVENT = "gen_ai.evaluation.result"
_RESOURCE = Resource({"service.name": "conch", "service.version": version("conch-agent")})
_SCOPE = InstrumentationScope("conch", version("conch-agent"))
_LOGGERS = tuple(
    logging.getLogger(f"opentelemetry.exporter.otlp.proto.http.{name}") for name in ("trace_exporter", "_log_exporter")
)
_FILES = ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
"""Ends of the names of OpenTelemetry's variables that name a file, the authorities first."""
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Answers of an endpoint that may take the same a while later."""


class EndpointUnreachableError(Exception):
    """The endpoint does not answer, or asks for a pause. The same batch may be sent again."""


class ExportRefusedError(Exception):
    """The endpoint will never accept this batch; or it cannot be written as OTLP."""


class _TlsAdapter(HTTPAdapter):
    """Verifies servers by a TLS context that is given."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        """With the context."""
        super().init_poolmanager(*arguments, ssl_context=self._tls, **named)

    def proxy_manager_for(self, *arguments: Any, **named: Any) -> Any:
        """With the context."""
        return super().proxy_manager_for(*arguments, ssl_context=self._tls, **named)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Without the authorities of the package certifi beside those of the context."""
        super().cert_verify(conn, url, verify, cert)
        conn.ca_certs = conn.ca_cert_dir = None


class _RecordingSession(requests.Session):
    """A requests session that remembers the outcome of its last request."""

    asked = False
    answer: requests.Response | None = None
    trouble = ""

    def __init__(self, url: str, signal: str) -> None:
        """`url`: all that it asks; `signal`: TRACES or LOGS. Raises ClientEnvironmentError."""
        super().__init__()
        self.trust_env = False  # `conch.clients` reads the environment
        if (proxy := proxy_of(url, "PySocks")) is not None:
            self.proxies = {"http": proxy.url, "https": proxy.url}
        variables = [[f"OTEL_EXPORTER_OTLP_{part}{name}" for part in (f"{signal}_", "")] for name in _FILES]
        for name in (name for names in variables[1:] for name in names):  # the first ones are read below
            check_file(name)
        is_own = is_own_machine(urlsplit(url).hostname or "")
        tls = tls_context(own_machine=is_own, own_variables=variables[0], variables=REQUESTS_CAS)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _TlsAdapter(tls))

    def begin(self) -> None:
        """Nothing was asked yet."""
        self.asked, self.answer = False, None

    def request(self, *arguments: Any, **named: Any) -> requests.Response:
        """Send as `requests.Session` does, and remember the outcome."""
        self.asked, self.answer, self.trouble = True, None, ""
        try:
            answer = self.answer = super().request(*arguments, **named)
        except requests.RequestException as error:
            self.trouble = type(error).__name__
            raise
        return answer

    @property
    def moved(self) -> bool:
        """Whether the answer sends us elsewhere: the exporters take that for a yes, and go nowhere."""
        return self.answer is not None and self.answer.is_redirect


@dataclass(frozen=True)
class _SignalExporter:
    """The exporter of one kind of signal, traces or logs."""

    url: str
    session: _RecordingSession
    export: Callable[[Sequence[Any]], Any]
    shutdown: Callable[[], None]

    def send(self, batch: Sequence[Any]) -> None:
        """Blocks until the endpoint has it. Raises EndpointUnreachableError and ExportRefusedError."""
        self.session.begin()
        if self.export(batch).name == "SUCCESS" and not self.session.moved:
            return
        if not self.session.asked:
            raise ExportRefusedError("it cannot be written as OTLP")
        if (answer := self.session.answer) is None:
            raise EndpointUnreachableError(f"no answer from {self.url} ({self.session.trouble})")
        said = f"{self.url} answers {answer.status_code} {answer.reason}".rstrip()
        raise EndpointUnreachableError(said) if answer.status_code in _PASSING else ExportRefusedError(said)


class OtlpExporter:
    """The exporters of an endpoint. Entered, it sends; left, it sends no more, and what is under way ends by itself."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        """`endpoint`: up to where /v1/traces begins. Without `headers`, and for time limit, compression and
        certificates, the exporters read OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_…). Raises
        ClientEnvironmentError."""
        base = endpoint.rstrip("/")
        self.address = masked(base)
        """The endpoint's address, with secrets masked."""
        own = dict(headers) or None
        sessions = (
            _RecordingSession(f"{base}/v1/traces", "TRACES"),
            _RecordingSession(f"{base}/v1/logs", "LOGS"),
        )
        traces = OTLPSpanExporter(f"{base}/v1/traces", headers=own, session=sessions[0])
        logs = OTLPLogExporter(f"{base}/v1/logs", headers=own, session=sessions[1])
        self._traces = _SignalExporter(f"{self.address}/v1/traces", sessions[0], traces.export, traces.shutdown)
        self._logs = _SignalExporter(f"{self.address}/v1/logs", sessions[1], logs.export, logs.shutdown)

    def __enter__(self) -> OtlpExporter:
        for logger in _LOGGERS:
            logger.disabled = True  # failures are logged here once, in our format
        return self

    def __exit__(self, *_: object) -> None:
        self._traces.shutdown()
        self._logs.shutdown()
        for logger in _LOGGERS:
            logger.disabled = False

    @property
    def failing(self) -> bool:
        """Whether the last request had no answer, though it may be tried again."""
        return bool(self._traces.session.trouble or self._logs.session.trouble)

    async def send_spans(self, spans: Sequence[CycleSpan]) -> None:
        """Send; returns once the endpoint has them. Raises EndpointUnreachableError and ExportRefusedError. Cancelled,
        they may arrive or not."""
        await _in_thread(partial(self._traces.send, [readable(one) for one in spans]))

    async def send_evaluations(self, evaluations: Sequence[ScoreEvent]) -> None:
        """The same of evaluations."""
        await _in_thread(partial(self._logs.send, [_record(one) for one in evaluations]))


def readable(one: CycleSpan) -> ReadableSpan:
    """A span as the exporter takes it."""
    return ReadableSpan(
        name=one.name,
        context=_context(one.trace, one.span),
        parent=_context(one.trace, one.parent) if one.parent is not None else None,
        resource=_RESOURCE,
        attributes=one.attributes,
        kind=SpanKind.CLIENT if one.remote else SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET) if one.error is None else Status(StatusCode.ERROR, one.error),
        start_time=one.start,
        end_time=one.end,
        instrumentation_scope=_SCOPE,
    )


def _record(one: ScoreEvent) -> ReadableLogRecord:
    record = LogRecord(
        timestamp=one.time,
        observed_timestamp=one.time,
        context=set_span_in_context(NonRecordingSpan(_context(one.trace, one.span))),
        severity_number=SeverityNumber.INFO,
        attributes=dict(one.attributes),
        event_name=EVENT,
    )
    return ReadableLogRecord(record, _RESOURCE, _SCOPE)


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


async def _in_thread(call: Callable[[], None]) -> None:
    """Run in a thread that is abandoned on cancellation: an endpoint that hangs does not delay the shutdown."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the call was abandoned
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="conch.otel.send", daemon=True).start()
    await done.wait()
    if raised:
        raise raised[0]
