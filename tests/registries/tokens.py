"""A token server for a registry, as the distribution project specifies it: JWTs signed by a certified key."""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
import urllib.request
import uuid
from datetime import UTC, datetime, timedelta

import jwt
from aiohttp import encode_basic_auth, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from registries.memory import refusal

__all__ = ["ISSUER", "SERVICE", "TokenAuthority", "pushing"]

ISSUER, SERVICE = "token server of the test", "registry of the test"
PUBLIC = "public/"  # repositories that everybody may pull from begin with it

_LIFETIME_SECONDS = 300
_SECONDS = 60.0


class TokenAuthority:
    """Gives one user everything asked for, and everybody pulls from public repositories."""

    def __init__(self, user: str, password: str) -> None:
        self._login = encode_basic_auth(user, password)
        self._user = user
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _self_signed(self._key)

    @property
    def certificate_pem(self) -> bytes:
        """What the registry is to trust."""
        return self._certificate.public_bytes(Encoding.PEM)

    def handler(self, request: web.Request) -> web.Response:
        """Answers `GET …?service=…&scope=…`; wrong credentials are refused, none are anonymous."""
        login = request.headers.get("Authorization")
        if login not in (None, self._login):
            return refusal(401, "UNAUTHORIZED")
        access = [self._granted(each, anonymous=login is None) for each in request.query.getall("scope", [])]
        token = self._token(request.query.get("service", ""), [each for each in access if each["actions"]])
        return web.json_response({"token": token, "expires_in": _LIFETIME_SECONDS})

    def _granted(self, scope: str, *, anonymous: bool) -> dict[str, object]:
        kind, _, rest = scope.partition(":")
        name, _, actions = rest.rpartition(":")
        allowed = {"pull"} if name.startswith(PUBLIC) else set[str]()
        wanted = actions.split(",")
        return {"type": kind, "name": name, "actions": [each for each in wanted if not anonymous or each in allowed]}

    def _token(self, service: str, access: list[dict[str, object]]) -> str:
        now = int(time.time())
        lifetime = {"iat": now, "nbf": now - 10, "exp": now + _LIFETIME_SECONDS}
        claims = {"iss": ISSUER, "sub": self._user, "aud": service, "jti": str(uuid.uuid4()), "access": access}
        chain = [base64.b64encode(self._certificate.public_bytes(Encoding.DER)).decode()]
        return jwt.encode({**claims, **lifetime}, self._key, algorithm="ES256", headers={"x5c": chain})


def pushing(url: str, repository: str, user: str, password: str) -> str:
    """Ask the token server at this URL for a token with which to push to a repository."""
    query = urllib.parse.urlencode({"service": SERVICE, "scope": f"repository:{repository}:pull,push"})
    login = {"Authorization": encode_basic_auth(user, password)}
    request = urllib.request.Request(f"{url}/token?{query}", headers=login)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - the same
        return str(json.loads(answer.read())["token"])


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256())
