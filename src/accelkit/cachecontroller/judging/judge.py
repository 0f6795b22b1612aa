"""Image evaluator, which requests the digest, the signatures and the labels of an image, but no layers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, Self

from accelkit.cachecontroller.deciding.judgement import Judgement, Question, Refused
from accelkit.cachecontroller.judging.coverage import Coverage
from accelkit.errors import CacheError, ConfigurationError, RegistryError
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache
from accelkit.kernelcache.formats.cache_image import read_cache_image
from accelkit.kernelcache.formats.mounts import is_relocatable
from accelkit.kernelcache.oci.reference import Reference, parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.registry.pull_secrets import PullSecretError, read_pull_secrets
from accelkit.kernelcache.signatures import Failure, RejectionReason, Signature, UnverifiedError, verify_image
from accelkit.kernelcache.signatures.findings import choose_nearest
from accelkit.kube.client import ApiClient

# Time limit for all requests about one image. After a timeout, the image is evaluated again later.
PATIENCE_SECONDS: Final = 60.0
# Number of attempts per request. A failed evaluation is retried separately, with increasing delays.
_ATTEMPTS: Final = 2
_SILENCE_SECONDS: Final = 15.0


class ImageEvaluator:
    """Image evaluator. Use it as an asynchronous context manager.

    Args:
        api: client for pull secrets.
        settings: connection settings for registries.
        coverage: SignerPolicies of the cluster.
        namespace: namespace of the pull secrets for ClusterGKMCaches.
        clock: function that returns the seconds since 1970.
    """

    def __init__(
        self,
        api: ApiClient,
        settings: RegistrySettings,
        coverage: Coverage,
        namespace: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._settings = replace(settings, attempts=_ATTEMPTS, timeout_seconds=_SILENCE_SECONDS)
        self._coverage = coverage
        self._namespace = namespace
        self._clock = clock
        # Caches without pull secrets share this client, because each client reads the operating system's CA
        # certificates.
        self._shared = RegistryClient(self._settings)

    async def __aenter__(self) -> Self:
        await self._shared.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.__aexit__(None, None, None)

    async def judge(self, cache: Cache, question: Question, attempts: int) -> Judgement:
        """Evaluate the image of a cache.

        Args:
            cache: cache with the image.
            question: question to evaluate.
            attempts: number of previous consecutive attempts without a verdict.

        Raises:
            ApiError: the API server did not respond.
        """
        image = parse_reference(question.image)
        resolved = ""
        try:
            async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
                client = await self._open(stack, cache, question)
                # Resolve the digest first, because rejection messages contain the digest, and all further requests must
                # use the same digest even if the tag moves.
                raw = await client.read_manifest(image)
                resolved = raw.digest
                policies = self._coverage.find_policies(image, cache.metadata.namespace or None)
                verified = await verify_image(
                    client,
                    image.with_digest(raw.digest),
                    policies,
                    namespace=cache.metadata.namespace or None,
                    patience_seconds=PATIENCE_SECONDS,
                )
                read = await read_cache_image(client, verified.image, verified.manifest)
        except PullSecretError as exc:
            refused = Refused(Reason.PULL_SECRET_UNREADABLE, str(exc), retryable=True)
        except (RegistryError, TimeoutError) as exc:
            refused = _refuse_registry(image, exc)
        except UnverifiedError as exc:
            refused = _refuse_unverified(exc)
        except (CacheError, ConfigurationError) as exc:
            refused = Refused(Reason.INVALID_IMAGE, str(exc))
        else:
            signatures = tuple(_describe(each) for each in verified.signatures)
            answered = Question(question.image, policies.digest, question.secrets)
            return Judgement(
                answered,
                self._clock(),
                resolved,
                None,
                signatures,
                labels=read.labels,
                relocatable=is_relocatable(read.labels),
            )
        again = refused.retryable or refused.reason in {RejectionReason.UNREADABLE, RejectionReason.NO_SIGNATURES}
        return Judgement(question, self._clock(), resolved, refused, attempts=attempts + 1 if again else 0)

    async def _open(self, stack: AsyncExitStack, cache: Cache, question: Question) -> RegistryClient:
        if not question.secrets:
            return self._shared
        namespace = cache.metadata.namespace or self._namespace
        credentials = await read_pull_secrets(self._api, namespace, question.secrets)
        settings = replace(self._settings, credentials=credentials.followed_by(self._settings.credentials))
        return await stack.enter_async_context(RegistryClient(settings))


def _refuse_registry(image: Reference, exc: RegistryError | TimeoutError) -> Refused:
    if isinstance(exc, TimeoutError):
        text = f"cannot judge the image: registry {image.registry} took longer than {PATIENCE_SECONDS:g} seconds"
        return Refused(Reason.REGISTRY_UNAVAILABLE, text, retryable=True)
    if exc.retryable:
        return Refused(Reason.REGISTRY_UNAVAILABLE, str(exc), retryable=True)
    return Refused(RejectionReason.UNREADABLE, str(exc))


def _refuse_unverified(exc: UnverifiedError) -> Refused:
    """Return why an image is rejected. If the mirrors respond, an unreachable registry is not the reason.

    In this case, the result is retryable, because the registry may have a signature that the mirrors do not have.
    """
    unreachable = [each for each in exc.failures if each.reason is RejectionReason.REGISTRY_UNAVAILABLE]
    if not unreachable or not all(each.beside_mirrors for each in unreachable):
        return Refused(exc.reason, str(exc), retryable=exc.reason.retryable)
    none = Failure(RejectionReason.NO_SIGNATURES, "the mirrors have no signatures of the image")
    found = choose_nearest((none, *(each for each in exc.failures if each not in unreachable)))
    return Refused(
        found.reason, f"{found.message}, and the registry is unreachable: {unreachable[0].message}", retryable=True
    )


def _describe(signature: Signature) -> dict[str, str]:
    values = {
        "policy": signature.policy,
        "signer": signature.signer,
        "format": signature.format,
        "identity": signature.identity,
        "issuer": signature.issuer or "",
    }
    return {key: value for key, value in values.items() if value}
