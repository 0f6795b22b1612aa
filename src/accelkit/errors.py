"""Errors of accelkit, one tree.

AccelkitError
  QuantityError        a Kubernetes quantity or amount that cannot be read
  RequestError         a pod asks for something that can never be granted as written
  InventoryError       a node's inventory annotation cannot be used
  AssignmentError      an assignment annotation cannot be used
  ProfileError         a vendor profile or dialect is wrong
  ApiError             the Kubernetes API server refused or could not be reached
  DevicePluginError    the device plugin or the kubelet's side of it failed
  ConfigurationError   a file or option we were given is wrong
  SandboxError         the embedded cluster cannot start, run or stop
  ServiceError         one of our own services answered with an error or not at all
  CacheError           a kernel cache, its image or its folder is not what it should be
  RegistryError        an image registry refused, lied or could not be reached
  SignatureError       an image's signature does not satisfy the signer policy, or cannot be judged
    RejectedError      one signature does not satisfy one signer (accelkit.kernelcache.signatures.findings)
    UnverifiedError    no signature of an image satisfies a policy (the same module)
  ExampleError         an example cannot be generated as asked

Each carries one sentence for the person who reads it and, where we know it, the next step.
"""

from __future__ import annotations


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


class AssignmentError(AccelkitError):
    """An assignment annotation cannot be used."""


class ProfileError(AccelkitError):
    """A vendor profile or dialect is wrong."""


class DevicePluginError(AccelkitError):
    """The device plugin or the kubelet's side of it failed."""


class ConfigurationError(AccelkitError):
    """A file or option we were given is wrong."""


class SandboxError(AccelkitError):
    """The embedded cluster cannot start, run or stop."""


class ServiceError(AccelkitError):
    """One of our own services answered with an error or not at all."""


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
        return self.status == 0 or self.status >= 500  # noqa: PLR2004 - the HTTP class of server errors


class CacheError(AccelkitError):
    """A kernel cache, its image or its folder is not what it should be."""


class RegistryError(AccelkitError):
    """An image registry refused a request, sent what it should not, or could not be reached.

    Args:
        message: one sentence that names registry and repository.
        status: the HTTP status, or 0 where no answer came.
        retryable: whether the same request may well succeed later, so that nothing was learnt about the image.
        retry_after_seconds: how long the registry asks to be left alone, in seconds; 0 where it does not ask.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        retryable: bool = False,
        retry_after_seconds: float = 0.0,
        next_step: str = "",
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds

    @property
    def missing(self) -> bool:
        """Whether the registry says that there is no such thing, which is an answer."""
        return self.status == 404  # noqa: PLR2004 - HTTP's word for "not there"


class SignatureError(AccelkitError):
    """An image's signatures do not satisfy the signer policy, or cannot be judged."""


class ExampleError(AccelkitError):
    """An example cannot be generated as asked."""
