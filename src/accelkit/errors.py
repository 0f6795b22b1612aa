"""The exceptions of accelkit, which form a hierarchy.

AccelkitError
  QuantityError        a Kubernetes quantity or amount cannot be read
  RequestError         a pod's request can never be granted as written
  InventoryError       a node's inventory annotation cannot be used
  AssignmentError      an assignment annotation cannot be used
  ManagedResourcesError  the record of managed resources cannot be used
  ProfileError         a vendor profile or dialect is invalid
  PluginError          a plug-in from another Python distribution cannot be used
  ApiError             the Kubernetes API server rejected a request or could not be reached
  DevicePluginError    a device plugin, or a call from the kubelet to a device plugin, failed
  ConfigurationError   a user-provided file or option is invalid
  CertificateError     a certificate cannot be used for its purpose
  SandboxError         the embedded cluster cannot start, run or stop
  ServiceError         a service of accelkit returned an error or did not respond
    WaitError            a state was not reached before the timeout
    NoExtenderError      the cluster does not have an extender that can be reached through its API server
  NotReadyError        the extender cannot make decisions yet
  NotLeadingError      another replica of the extender is the leader
  AccessError          a client of the extender is not authenticated or not authorized
  BadArgsError         the arguments from kube-scheduler lack a field that the verb requires
  BindingError         a pod cannot be bound to the requested node
    PodGoneError       the pod no longer exists
  MisfitError          a pod no longer fits on its node (in accelkit.placement.misfit)
  CacheError           a kernel cache, its image or its folder is invalid
  RegistryError        an image registry rejected a request, sent invalid data, or could not be reached
  SignatureError       an image's signatures do not satisfy the signer policy, or cannot be verified
    RejectedError      one signature does not satisfy one signer (in accelkit.kernelcache.signatures.findings)
    UnverifiedError    no signature of an image satisfies a policy (in the same module)
  ExampleError         the requested example cannot be generated
  WorkError            a check in a pod failed (in accelkit.enablement.work.share_check.evidence)
  GroupSizeError       the size of a pod group is unknown (in accelkit.extender.groups.group_index)
  PullSecretError      a pull secret cannot be used (in accelkit.kernelcache.registry.pull_secrets)
  UnreadablePodError   a pod cannot be read (in accelkit.cachecontroller.live_reads.pods)
  AnnotationError      the request of a pod for caches is invalid (in accelkit.cachecontroller.webhook.annotation)
    UnknownCacheError    the request refers to an unknown cache (in accelkit.cachecontroller.webhook.injection)
  ReplacementError     a pod cannot get its cache as requested (in accelkit.cachecontroller.webhook.replacement)

Each error contains a message for the user, which is one sentence, and the next step if it is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus


class AccelkitError(Exception):
    """Base class of all errors that accelkit raises intentionally.

    Args:
        message: the problem, as one sentence.
        next_step: the next step for the user; empty if it is unknown.
    """

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}; {self.next_step}" if self.next_step else self.message


class QuantityError(AccelkitError):
    """A Kubernetes quantity or amount cannot be read."""


class RequestError(AccelkitError):
    """A pod's request can never be granted as written."""


class InventoryError(AccelkitError):
    """A node's inventory annotation cannot be used. The node may have cards, but these cards are unknown."""


class ManagedResourcesError(AccelkitError):
    """The record of managed resources cannot be used, so the managed resources are unknown."""


class AssignmentError(AccelkitError):
    """An assignment annotation cannot be used."""


class ProfileError(AccelkitError):
    """A vendor profile or dialect is invalid."""


class PluginError(AccelkitError):
    """A plug-in from another Python distribution cannot be used. The message contains the distribution."""


class DevicePluginError(AccelkitError):
    """A device plugin failed, or a call from the kubelet to a device plugin failed."""


class ConfigurationError(AccelkitError):
    """A user-provided file or option is invalid."""


class CertificateError(AccelkitError):
    """A certificate cannot be used for its purpose, for the required names, or at the given time."""


class SandboxError(AccelkitError):
    """The embedded cluster cannot start, run or stop."""


class ServiceError(AccelkitError):
    """A service of accelkit returned an error or did not respond."""


class WaitError(ServiceError):
    """A state was not reached before the timeout.

    Args:
        seconds: the timeout.
        waiting: the objects that did not reach the state, such as `3 of 5 nodes: a, b, c`.
        sentence: the problem, as a sentence.
        next_step: the next step for the user.
    """

    def __init__(self, seconds: float, waiting: str, sentence: str, *, next_step: str) -> None:
        super().__init__(f"after {seconds:g} s {sentence}", next_step=next_step)
        self.waiting = waiting
        self.sentence = f"{sentence}; {next_step}"


class NoExtenderError(ServiceError):
    """The cluster does not have an extender that can be reached through its API server."""


class NotReadyError(AccelkitError):
    """The extender cannot make decisions yet. The message contains the unmet condition."""


class NotLeadingError(AccelkitError):
    """Another replica of the extender is the leader. The message contains the name of this replica."""


class AccessError(AccelkitError):
    """A client of the extender is not authenticated or not authorized.

    Args:
        message: the reason, as one sentence.
        status: the HTTP status of the response, 401 or 403.
    """

    def __init__(self, message: str, *, status: HTTPStatus, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class BadArgsError(AccelkitError):
    """The arguments from kube-scheduler lack a field that the verb requires. The message contains this field."""


class BindingError(AccelkitError):
    """A pod cannot be bound to the requested node."""


class PodGoneError(BindingError):
    """The pod no longer exists, or another pod now has its name."""


class ApiError(AccelkitError):
    """The Kubernetes API server rejected a request or could not be reached.

    Args:
        message: the message from the API server, if any.
        status: the HTTP status, or 0 if there was no response. Without a response, the effect of the request is
            unknown.
        reason: the machine-readable reason from the API server, such as `Conflict` or `NotFound`; may be empty.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.status = status
        self.reason = reason

    @property
    def unanswered(self) -> bool:
        """Whether the effect of the request is unknown: there was no response, or the status is 500 or higher."""
        return self.status == 0 or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def unavailable(self) -> bool:
        """Whether the server is unavailable. Status 500 is excluded, because a single oversized object may cause it."""
        return self.unanswered and self.status != HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def not_found(self) -> bool:
        """Whether the object or its kind does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def forbidden(self) -> bool:
        """Whether accelkit is not authorized, or an admission plugin rejected the request."""
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def conflict(self) -> bool:
        """Whether the object has changed, has a different UID, or already exists, in conflict with the request."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def already_exists(self) -> bool:
        """Whether an object with this name already exists."""
        return self.conflict and self.reason == "AlreadyExists"

    @property
    def expired(self) -> bool:
        """Whether the resource version, or the token for the next page of a list, has expired."""
        return self.status == HTTPStatus.GONE


class PageTooLargeError(ApiError):
    """A page of a list is too large, or takes too long to read. A request for a smaller page may succeed."""


class CacheError(AccelkitError):
    """A kernel cache, its image or its folder is invalid."""


class RegistryError(AccelkitError):
    """An image registry rejected a request, sent invalid data, or could not be reached.

    Args:
        message: the problem, as one sentence that contains the registry and the repository.
        status: the HTTP status, or 0 if there was no response.
        retryable: whether the same request may succeed later. Such an error does not indicate a problem with the image.
        retry_after_seconds: the value of the registry's `Retry-After` header in seconds; 0 if there is none.
        unreached: whether no connection was established.

    Attributes:
        beside_mirrors: whether mirrors responded to the request, although the registry could not be reached.
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
        """Whether the registry responded that the requested object does not exist."""
        return self.status == HTTPStatus.NOT_FOUND


class SignatureError(AccelkitError):
    """An image's signatures do not satisfy the signer policy, or cannot be verified."""


class ExampleError(AccelkitError):
    """The requested example cannot be generated."""


def find_first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception in an exception group, at any depth."""
    first = failures.exceptions[0]
    return find_first(first) if isinstance(first, BaseExceptionGroup) else first


@contextmanager
def raise_first(*kinds: type[Exception]) -> Iterator[None]:
    """Replace an exception group with its first exception, if all exceptions in the group have these types.

    As a result, the user gets a single error. The other errors have the same cause, or are reported at the next
    attempt. This function does not use `except*`, because some Python releases would raise a group again.
    """
    try:
        yield
    except ExceptionGroup as failures:
        ours, others = failures.split(kinds)
        if ours is None or others is not None:
            raise
        raise find_first(ours) from None
