"""Errors of accelkit, one tree.

AccelkitError
  QuantityError        a Kubernetes quantity or amount that cannot be read
  RequestError         a pod asks for something that can never be granted as written
  InventoryError       a node's inventory annotation cannot be used
  AssignmentError      an assignment annotation cannot be used
  ProfileError         a vendor profile or dialect is wrong
  PluginError          a plug-in of another distribution cannot be used
  ApiError             the Kubernetes API server refused or could not be reached
  DevicePluginError    the device plugin or the kubelet's side of it failed
  ConfigurationError   a file or option we were given is wrong
  CertificateError     a certificate cannot be used for its purpose
  SandboxError         the embedded cluster cannot start, run or stop
  ServiceError         one of our own services answered with an error or not at all
    WaitError            what was waited for has not come in time
    NoExtenderError      the cluster has no extender that can be reached through its API server
  NotReadyError        the extender cannot decide now
  NotLeadingError      another replica of the extender answers
  AccessError          a reader of the extender is not known, or has no right
  BadArgsError         kube-scheduler's arguments lack what the verb needs
  BindingError         a pod cannot be bound to the node asked for
    PodGoneError       it does not exist any more
  MisfitError          a pod does not fit its node any more (in accelkit.placement.misfit)
  CacheError           a kernel cache, its image or its folder is not what it should be
  RegistryError        an image registry refused, lied or could not be reached
  SignatureError       an image's signature does not satisfy the signer policy, or cannot be judged
    RejectedError      one signature does not satisfy one signer (accelkit.kernelcache.signatures.findings)
    UnverifiedError    no signature of an image satisfies a policy (the same module)
  ExampleError         an example cannot be generated as asked
  WorkError            a check in a pod did not go well (in accelkit.enablement.work.share_check.evidence)

Each carries one sentence for the person who reads it and, where we know it, the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus


class AccelkitError(Exception):
    """The root: everything accelkit raises on purpose.

    Args:
        message: one sentence that says what is wrong.
        next_step: what the reader can do about it; empty where we do not know.
    """

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}; {self.next_step}" if self.next_step else self.message


class QuantityError(AccelkitError):
    """A Kubernetes quantity or amount that cannot be read."""


class RequestError(AccelkitError):
    """A pod asks for something that can never be granted as written."""


class InventoryError(AccelkitError):
    """A node's inventory annotation cannot be used; its cards are unknown, not absent."""


class ManagedResourcesError(AccelkitError):
    """The record of managed resources cannot be used; what it lists is unknown."""


class AssignmentError(AccelkitError):
    """An assignment annotation cannot be used."""


class ProfileError(AccelkitError):
    """A vendor profile or dialect is wrong."""


class PluginError(AccelkitError):
    """A plug-in of another distribution cannot be used; the message names that distribution."""


class DevicePluginError(AccelkitError):
    """The device plugin or the kubelet's side of it failed."""


class ConfigurationError(AccelkitError):
    """A file or option we were given is wrong."""


class CertificateError(AccelkitError):
    """A certificate cannot be used for its purpose, for these names or at this time."""


class SandboxError(AccelkitError):
    """The embedded cluster cannot start, run or stop."""


class ServiceError(AccelkitError):
    """One of our own services answered with an error or not at all."""


class WaitError(ServiceError):
    """What was waited for has not come in time.

    Args:
        seconds: how long it was waited for.
        waiting: what is still waited for, as `3 of 5 nodes: a, b, c`.
        sentence: what is wrong.
        next_step: what the reader can do about it.
    """

    def __init__(self, seconds: float, waiting: str, sentence: str, *, next_step: str) -> None:
        super().__init__(f"after {seconds:g} s {sentence}", next_step=next_step)
        self.waiting = waiting
        self.sentence = f"{sentence}; {next_step}"


class NoExtenderError(ServiceError):
    """The cluster has no extender that can be reached through its API server."""


class NotReadyError(AccelkitError):
    """The extender cannot decide now; the message says what it waits for."""


class NotLeadingError(AccelkitError):
    """Another replica of the extender answers; the message says which."""


class AccessError(AccelkitError):
    """A reader of the extender is not known, or has no right.

    Args:
        message: one sentence that says why.
        status: the HTTP status that is answered, 401 or 403.
    """

    def __init__(self, message: str, *, status: HTTPStatus, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class BadArgsError(AccelkitError):
    """The arguments of a verb lack what it needs; the message says what."""


class BindingError(AccelkitError):
    """A pod cannot be bound to the node asked for."""


class PodGoneError(BindingError):
    """The pod does not exist any more, or another one has its name."""


class ApiError(AccelkitError):
    """The Kubernetes API server refused a request or could not be reached.

    Args:
        message: the API server's own message where it gave one.
        status: the HTTP status, or 0 where no answer came (then nothing is known about the effect).
        reason: the API server's machine-readable reason (`Conflict`, `NotFound`…), or empty.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.status = status
        self.reason = reason

    @property
    def unanswered(self) -> bool:
        """Whether the effect of the request is unknown: no answer, or one that blames the server."""
        return self.status == 0 or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def away(self) -> bool:
        """Whether the server itself is away; a fault (500) may be of one object, as one that is too large to keep."""
        return self.unanswered and self.status != HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def not_found(self) -> bool:
        """Whether there is no such object, or no such kind."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def forbidden(self) -> bool:
        """Whether we lack the right, or an admission plugin refused."""
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def conflict(self) -> bool:
        """Whether the object is not as the request supposed: changed since, of another UID, or there already."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def already_exists(self) -> bool:
        """Whether an object of this name is there already."""
        return self.conflict and self.reason == "AlreadyExists"

    @property
    def expired(self) -> bool:
        """Whether the resource version, or the page of a list, is too old to go on from."""
        return self.status == HTTPStatus.GONE


class PageTooLargeError(ApiError):
    """A page of a list is larger than can be taken, or takes too long: fewer objects may be asked for."""


class CacheError(AccelkitError):
    """A kernel cache, its image or its folder is not what it should be."""


class RegistryError(AccelkitError):
    """An image registry refused a request, sent what it should not, or could not be reached.

    Args:
        message: one sentence that names registry and repository.
        status: the HTTP status, or 0 where no answer came.
        retryable: whether the same request may well succeed later, so that nothing was learnt about the image.
        retry_after_seconds: how long the registry asks to be left alone, in seconds; 0 where it does not ask.
        unreached: whether no connection came about.

    Attributes:
        beside_mirrors: whether mirrors of the registry, which could not be reached, have answered what was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        retryable: bool = False,
        retry_after_seconds: float = 0.0,
        unreached: bool = False,
        next_step: str = "",
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        self.unreached = unreached
        self.beside_mirrors = False

    @property
    def missing(self) -> bool:
        """Whether the registry says that there is no such thing, which is an answer."""
        return self.status == HTTPStatus.NOT_FOUND


class SignatureError(AccelkitError):
    """An image's signatures do not satisfy the signer policy, or cannot be judged."""


class ExampleError(AccelkitError):
    """An example cannot be generated as asked."""


def find_first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, however deep it lies."""
    first = failures.exceptions[0]
    return find_first(first) if isinstance(first, BaseExceptionGroup) else first


@contextmanager
def raise_first(*kinds: type[Exception]) -> Iterator[None]:
    """Raise the first of several failures as it is, where tasks that are all of these kinds fail together.

    A person reads one line: what failed along with the first one has the same cause, or is found the next time. Not by
    `except*`, which some releases of Python leave with a group again.
    """
    try:
        yield
    except ExceptionGroup as failures:
        ours, others = failures.split(kinds)
        if ours is None or others is not None:
            raise
        raise find_first(ours) from None
