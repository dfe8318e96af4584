"""Every error that Conch raises, named by the boundary it crossed.

    ConchError
    ├── UsageError            exit 2   the command line
    │   └── ConfigError                conch.yaml, environment
    ├── HomeError             exit 1   the home directory: read-only, full, too new
    │   └── HomeBusyError              another process owns it
    ├── BusError              exit 3   the bus
    │   ├── BusUnreachableError        no server, or it refused us
    │   │   └── ServerDiedError        our own server died as it started: another start may succeed
    │   ├── NoResponderError           nobody answers on the subject of a request
    │   ├── FencedError       exit 1   another copy of this consumer has written since
    │   └── AgentsBusyError   exit 1   another run has an agent of this one
    ├── NoAnswerError         exit 1   an agent has not answered a message in time
    ├── ModelError            exit 3   the mind's endpoint
    │   └── AdapterError      exit 3   the endpoint did not reply under an adapter
    ├── ServingError          exit 3   an engine does not serve an adapter
    ├── ClientEnvironmentError exit 3  a variable of the environment, such as ALL_PROXY, keeps a client from being made
    ├── JudgeError            exit 1   a judge gave no score
    ├── ToolError             exit 1   a tool was used wrongly
    ├── ContractError         exit 1   an event or a plug-in broke its contract
    ├── StoreError            exit 1   the experience store
    │   ├── NoStoreError               no agent has acted yet
    │   └── StoreAwayError             its server does not answer
    ├── SampleError           exit 1   no experience may be drawn now
    ├── TrainingError         exit 1   no adapter can be trained, judged or moved now
    │   └── TrainerBusyError           another trainer has the lineage
    └── CheckError            exit 4   a check did not hold

The message is one sentence: what is wrong, where, and what to do. Facts are attributes.
"""

from __future__ import annotations


class ConchError(Exception):
    """Root of all errors of Conch."""

    exit_code = 1


class UsageError(ConchError):
    """The command line asks for something impossible."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration is invalid."""


class HomeError(ConchError):
    """The home directory cannot be used."""


class HomeBusyError(HomeError):
    """Another process owns the home directory."""


class BusError(ConchError):
    """The bus refused or failed."""

    exit_code = 3


class BusUnreachableError(BusError):
    """There is no bus at the address, or it refused the connection."""


class ServerDiedError(BusUnreachableError):
    """The embedded nats-server died during its start without a reason: another start may succeed."""


class NoResponderError(BusError):
    """Nobody answers on the subject of a request: it has reached nobody, and may be sent again."""


class FencedError(BusError):
    """Another copy of this consumer has written its position since."""

    exit_code = 1


class AgentsBusyError(BusError):
    """Another run on this bus has an agent of this one."""

    exit_code = 1


class NoAnswerError(ConchError):
    """An agent that has a message has not answered it in the time that was waited."""


class ModelError(ConchError):
    """The mind's endpoint failed.

    `retry_after`: seconds that it asked for, or None. `fatal`: retrying cannot help. `unreachable`: there was no
    connection. `status`: HTTP status of its answer, or None. `detail`: the endpoint's own words of it, whole.
    `unread`: it answered, and the answer could not be read as a reply, or was none, for a reason of the transport
    (status, framing, JSON type).
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        fatal: bool = False,
        unreachable: bool = False,
        status: int | None = None,
        detail: str = "",
        unread: bool = False,
    ) -> None:
        super().__init__(message)
        self.detail = detail
        self.unread = unread
        self.retry_after = retry_after
        self.fatal = fatal
        self.unreachable = unreachable
        self.status = status


class AdapterError(ModelError):
    """The mind's endpoint did not reply under the adapter that it was asked for: it does not know it, or it named
    another model. The endpoint itself may well be in order."""


class ServingError(ConchError):
    """An engine did not load an adapter, or does not serve it.

    `passing`: a later attempt may succeed without a change. `status`: HTTP status of its answer, or None.
    """

    exit_code = 3

    def __init__(self, message: str, *, passing: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.status = status


class ClientEnvironmentError(ConchError):
    """A variable of the environment, such as ALL_PROXY or SSL_CERT_FILE, names what a client cannot use. A retry cannot
    help: the run ends."""

    exit_code = 3


class JudgeError(ConchError):
    """A judge gave no score.

    `passing`: a retry may succeed; `after`: seconds to wait before it, or None. `unreachable`: there was no connection.
    """

    def __init__(
        self, message: str, *, passing: bool = False, after: float | None = None, unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.after = after
        self.unreachable = unreachable


class ToolError(ConchError):
    """A tool could not do what it was asked; the message goes to the agent."""


class ContractError(ConchError):
    """An event or a plug-in broke its contract. `seq`: the event's sequence in the stream, if it has one."""

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


class StoreError(ConchError):
    """The experience store cannot be read or written."""


class NoStoreError(StoreError):
    """There is no experience store yet: no agent has acted."""


class SampleError(ConchError):
    """No experience may be drawn now: there is none, or the limit of samples is reached."""


class TrainingError(ConchError):
    """No adapter can be trained, judged or moved now."""


class TrainerBusyError(TrainingError):
    """Another trainer has the lineage of this agent."""


class StoreAwayError(StoreError):
    """The server of the experience store does not answer; it may again."""


class CheckError(ConchError):
    """A verification found a problem: a mark or a score that is not valid."""

    exit_code = 4
