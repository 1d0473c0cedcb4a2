"""Errors of the product.

ServiceError
├── UsageError          what was asked cannot be meant; exit code 2
├── NotFound            nothing goes by that id or name
│   └── Forgotten       what went by that id was forgotten, and stays so
├── Ambiguous           more than one memory goes by that id or name
├── Refused             asked for something that would lose or leak; says what to do instead
├── ProjectRefused      an id file names a project that belongs elsewhere
├── HomeRefused         the data home cannot be used
├── EngineUnreachable   the engine does not answer and could not be started; retryable
├── EngineFailed        the engine answered with an error of its own
├── AddressNotFree      the engine cannot listen where it was told to
├── TokenFileRefused    a file of tokens cannot be trusted
└── RequestRefused      the door to the engine's HTTP lets a request not in
    ├── MalformedRequest    it can be read in more than one way
    ├── Unauthorized        it brings no token that opens anything
    ├── OriginRefused       it comes from a web page that has no business here
    ├── RequestTooSlow      its body does not come
    ├── LengthRequired      it does not say how long it is
    ├── BodyTooLarge        it says that it is too long
    ├── AddressTooLong      its URL is too long
    ├── NotJson             its body is something else
    ├── WrongHost           it is meant for another host
    ├── TooManyRequests     it comes too soon after others; retryable
    └── EngineCrowded       the engine has too much to do now; retryable
"""

from __future__ import annotations

from typing import ClassVar


class ServiceError(Exception):
    """A use case could not be carried out."""

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = "run: tiermem doctor"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint


class UsageError(ServiceError):
    """What was asked cannot be meant."""

    default_hint = "see: tiermem --help"


class NotFound(ServiceError):
    """Nothing goes by that id or name."""

    default_hint = "list what is there with: tiermem list"


class Forgotten(NotFound):
    """What went by that id was forgotten, and stays so."""

    default_hint = "to keep it after all, save it as a new memory: tiermem save"


class Ambiguous(ServiceError):
    """More than one memory goes by that id or name."""

    default_hint = "give more characters of the id"


class Refused(ServiceError):
    """What was asked would lose or leak something."""


class ProjectRefused(ServiceError):
    """An id file names a project that belongs elsewhere."""

    default_hint = "if this folder really is that project, run: tiermem init --adopt"


class HomeRefused(ServiceError):
    """The data home cannot be used."""

    default_hint = "set TIERMEM_HOME to a folder on a local disk that you own"


class EngineUnreachable(ServiceError):
    """The engine does not answer and could not be started."""

    retryable = True


class EngineFailed(ServiceError):
    """The engine answered with an error of its own."""

    def __init__(
        self, message: str, *, hint: str | None = None, code: str = "", retryable: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.can_retry = retryable


class AddressNotFree(ServiceError):
    """The engine cannot listen where it was told to."""

    default_hint = "end what listens there, or choose another port: tiermem serve --http HOST:PORT"


class TokenFileRefused(ServiceError):
    """A file of tokens cannot be trusted."""

    default_hint = "on the machine of the engine, run: tiermem token"


class RequestRefused(ServiceError):
    """The door to the engine's HTTP lets a request not in."""

    default_hint = "see docs/http.md"


class MalformedRequest(RequestRefused):
    """A request can be read in more than one way."""

    default_hint = "send plain HTTP/1.1, each header once"


class Unauthorized(RequestRefused):
    """A request brings no token that opens anything."""

    default_hint = "send the header: Authorization: Bearer TOKEN; tiermem token shows it"


class OriginRefused(RequestRefused):
    """A request comes from a web page that has no business here."""

    default_hint = "to let a web page in, name its origin in the setting http.origins"


class RequestTooSlow(RequestRefused):
    """The body of a request does not come."""

    default_hint = "send the whole body at once"


class LengthRequired(RequestRefused):
    """A request does not say how long it is."""

    default_hint = "send Content-Length, and no Transfer-Encoding"


class BodyTooLarge(RequestRefused):
    """A request is too long."""

    default_hint = "send less at a time, or raise the setting http.max_body_mb"


class AddressTooLong(RequestRefused):
    """The URL of a request is too long."""

    default_hint = "everything that is asked goes into the body"


class NotJson(RequestRefused):
    """The body of a request is something else than JSON."""

    default_hint = "send the header: Content-Type: application/json"


class WrongHost(RequestRefused):
    """A request is meant for another host."""

    default_hint = "if that is a name of this machine, add it to the setting http.hosts"


class TooManyRequests(RequestRefused):
    """A request comes too soon after others."""

    retryable = True
    default_hint = "wait as long as Retry-After says"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineCrowded(RequestRefused):
    """The engine has too much to do now."""

    retryable = True
    default_hint = "try again in a while"
