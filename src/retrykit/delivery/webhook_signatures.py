"""What verifying a webhook is made of: keys, certificates, the age of a request, the tokens that were seen.

Nothing here quotes a body, a signature or a secret. Cryptography is loaded by whoever first needs it.
"""

from __future__ import annotations

import base64
import importlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..clock import current_clock
from ..errors import ConfigurationError, MissingExtraError, WebhookRefusedError
from ..times import plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import Certificate

__all__ = [
    "AHEAD",
    "SIGNING_CERTIFICATE",
    "Certificates",
    "EcKeys",
    "Headers",
    "SeenTokens",
    "as_bytes",
    "by_name",
    "check_age",
    "decoded",
    "fetch_certificate",
    "need_cryptography",
    "unix_seconds",
]

Headers: TypeAlias = (
    Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
)
"""The headers of a request: a mapping, or pairs as ASGI gives them; names in any case."""

AHEAD: Final = 300.0
"""Seconds by which a request may be ahead of our clock."""
SIGNING_CERTIFICATE: Final = re.compile(
    r"https://sns\.[a-z]{2,4}(?:-[a-z]{2,16}){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?/[A-Za-z0-9_-]{1,128}\.pem", re.ASCII
)
"""Where SNS keeps its certificates: a file right under its own host; nothing before, between or behind."""
FETCH_TIMEOUT: Final = 5.0
"""Seconds that the host of a certificate may take to answer."""
MAX_CERTIFICATE: Final = 65_536
"""Bytes of a certificate that are read."""

_MIN_RSA_BITS: Final = 2_048
_UNIX: Final = re.compile(r"\d{1,12}", re.ASCII)


def need_cryptography() -> None:
    """See that signatures can be checked.

    Raises:
        MissingExtraError: cryptography is not installed.
    """
    try:
        importlib.import_module("cryptography")
    except ImportError:
        raise MissingExtraError("webhooks", "cryptography") from None


def by_name(headers: Headers) -> dict[str, str]:
    """Return headers by name in lower case; the values of one that comes several times are joined by ", " (RFC 9110)."""
    items = getattr(headers, "items", None)
    pairs = cast("Iterable[tuple[object, object]]", (headers or ()) if items is None else items())
    found: dict[str, str] = {}
    for name, value in pairs:
        key = _words(name).strip().lower()
        found[key] = f"{found[key]}, {_words(value)}" if key in found else _words(value)
    return found


def _words(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def as_bytes(text: str) -> bytes:
    """Return text as UTF-8; also lone surrogates, which JSON may hold."""
    return text.encode("utf-8", "surrogatepass")


def decoded(text: str) -> bytes | None:
    """Return what a text says in base64, None if it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def unix_seconds(text: str) -> int | None:
    """Return whole seconds since 1970 from their digits, None from anything else."""
    return int(text) if _UNIX.fullmatch(text) else None


def check_age(provider: str, signed_at: float, tolerance: float) -> None:
    """See that a request is of now.

    Args:
        provider: whose request it is.
        signed_at: seconds since 1970, as the request says.
        tolerance: seconds that it may be old.

    Raises:
        WebhookRefusedError: it is older, or more than five minutes ahead of the clock in force.
    """
    age = current_clock().now().timestamp() - signed_at
    if age > tolerance:
        raise WebhookRefusedError(
            provider,
            "too_old",
            f"it is {plain(age)} s old, allowed are {plain(tolerance)} s; if it is genuine, compare the clocks or raise tolerance",
        )
    if age < -AHEAD:
        raise WebhookRefusedError(
            provider,
            "in_the_future",
            f"it is {plain(-age)} s ahead of our clock, allowed are {plain(AHEAD)} s; if it is genuine, compare the clocks",
        )


class EcKeys:
    """Public keys of P-256, each given as PEM or as the base64 of DER.

    Raises:
        ConfigurationError: there is none, or one is no such key.
        MissingExtraError: cryptography is not installed.
    """

    def __init__(self, keys: Iterable[str | bytes]) -> None:
        need_cryptography()
        self._keys = tuple(_ec_key(key) for key in keys)
        if not self._keys:
            raise ConfigurationError("keys is empty; give the verification key that the provider shows")

    def have_signed(self, signature: bytes, signed: bytes) -> bool:
        """Tell whether one of the keys has made an ECDSA signature with SHA-256."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        for key in self._keys:
            try:
                key.verify(signature, signed, ECDSA(SHA256()))
            except InvalidSignature:
                continue
            return True
        return False


def _ec_key(key: str | bytes) -> EllipticCurvePublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

    text = key.decode("ascii", "replace") if isinstance(key, bytes) else key
    try:
        is_pem = text.lstrip().startswith("-----")
        loaded = (
            load_pem_public_key(text.encode()) if is_pem else load_der_public_key(decoded("".join(text.split())) or b"")
        )
    except (ValueError, UnsupportedAlgorithm):
        loaded = None
    if not isinstance(loaded, EllipticCurvePublicKey) or not isinstance(loaded.curve, SECP256R1):
        raise ConfigurationError(
            "one of keys is no public key of the curve P-256; allowed are PEM and base64 of DER, as the provider shows it"
        )
    return loaded


def fetch_certificate(url: str) -> bytes:
    """Fetch a certificate of SNS: within five seconds for each answer, without redirects, at most 64 KiB.

    Args:
        url: an https address that was checked.

    Raises:
        LookupError: there is no certificate.
        OSError: the host cannot be reached or cannot answer now.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        """A certificate is where SNS said, or nowhere."""

        def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
            """Follow none; it then counts as an error."""

    try:
        with build_opener(NoRedirect()).open(url, timeout=FETCH_TIMEOUT) as reply:
            content: bytes = reply.read(MAX_CERTIFICATE + 1)
    except HTTPError as error:
        error.close()
        if error.code >= 500 or error.code in (408, 429):
            raise
        raise LookupError(f"HTTP status {error.code} instead of a certificate") from None
    except HTTPException as error:  # is no OSError
        raise OSError(f"no proper answer: {type(error).__name__}") from error
    if len(content) > MAX_CERTIFICATE:
        raise LookupError(f"more than {MAX_CERTIFICATE:,} bytes instead of a certificate")
    return content


class Certificates:
    """The certificates by which SNS signs, fetched when first met.

    Only one by which a signature was found genuine is kept, so that forged requests cannot crowd the others out.

    Args:
        fetch: gives the certificate (PEM) at an address.
        limit: how many are kept, >= 1; the least recently used one goes first.
    """

    def __init__(self, fetch: Callable[[str], bytes], limit: int = 16) -> None:
        self._fetch = fetch
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Certificate] = OrderedDict()

    def check(self, provider: str, url: str, signature: bytes, signed: bytes, *, is_sha1: bool) -> None:
        """See that a signature was made by the certificate at an address, and that the certificate is valid now.

        Raises:
            WebhookRefusedError: it was not, or there is no usable certificate.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA1, SHA256

        with self._lock:
            certificate = self._kept.get(url)
        if certificate is None:
            certificate = self._fetched(provider, url)
        now = current_clock().now()
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise WebhookRefusedError(provider, "certificate", "its certificate is not valid now; compare the clocks")
        try:
            _rsa_key(provider, certificate).verify(signature, signed, PKCS1v15(), SHA1() if is_sha1 else SHA256())  # noqa: S303 - version 1 of SNS
        except InvalidSignature:
            raise WebhookRefusedError(provider, "signature", "its signature does not belong to what it says") from None
        with self._lock:
            self._kept[url] = certificate
            self._kept.move_to_end(url)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def _fetched(self, provider: str, url: str) -> Certificate:
        from cryptography.x509 import load_pem_x509_certificate

        absent = WebhookRefusedError(provider, "certificate", "there is no certificate at its SigningCertURL")
        try:
            content = self._fetch(url)
        except LookupError:
            raise absent from None
        try:
            return load_pem_x509_certificate(content)
        except ValueError:
            raise absent from None


def _rsa_key(provider: str, certificate: Certificate) -> RSAPublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey) or key.key_size < _MIN_RSA_BITS:
        raise WebhookRefusedError(
            provider, "certificate", f"its certificate holds no RSA key of at least {_MIN_RSA_BITS:,} bits"
        )
    return key


class SeenTokens:
    """Remembers tokens for a time, up to a number of them; beyond it the oldest are forgotten. Safe to share among threads.

    Args:
        keep: seconds that each is remembered, > 0.
        limit: how many at once, >= 1.
    """

    def __init__(self, keep: float, limit: int) -> None:
        self._keep = keep
        self._limit = limit
        self._lock = threading.Lock()
        self._until: OrderedDict[str, float] = OrderedDict()

    def __call__(self, token: str) -> bool:
        """Tell whether a token was seen before, and remember it."""
        now = current_clock().now().timestamp()
        with self._lock:
            while self._until and next(iter(self._until.values())) <= now:
                self._until.popitem(last=False)
            if token in self._until:
                return True
            self._until[token] = now + self._keep
            if len(self._until) > self._limit:
                self._until.popitem(last=False)
            return False

    def forget(self, token: str) -> None:
        """Let a token pass once more."""
        with self._lock:
            self._until.pop(token, None)
