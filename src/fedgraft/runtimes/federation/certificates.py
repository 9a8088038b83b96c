"""Keys and certificates of a federation: its own authority, the server's certificate, and a key for each node."""

import ipaddress
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.folders import HERE, PUBLIC_KEY

CURVES: Final = (SECP256R1, SECP384R1, SECP521R1)
"""Of keys that a node may have."""
AUTHORITY_DAYS: Final = 3653
"""How long the authority's certificate is valid: ten years."""
SERVER_DAYS: Final = 731
"""How long the server's certificate is valid: two years."""
RENEWED_DAYS: Final = 90
"""How long before its end a server that starts has a new one."""


class Pair(NamedTuple):
    """A private key and what others know of it, as files hold them.

    Args:
        private: PEM; of a node OpenSSH's.
        public: PEM of the certificate; of a node OpenSSH's public key, one line.
    """

    private: bytes
    public: bytes


def authority() -> tuple[Pair, "Authority"]:
    """Return a new authority, and what signs with it."""
    key = generate_private_key(SECP384R1())
    name = _common_name("fedgraft federation")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _begun(name, name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    return Pair(_private(key), made.public_bytes(Encoding.PEM)), Authority(key, made)


class Authority:
    """Signs certificates."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key, self._certificate = key, certificate

    @classmethod
    def of(cls, pair: Pair) -> "Authority":
        """Return what signs with an authority's key. Raises `ValueError` for what is none."""
        key = cast(EllipticCurvePrivateKey, load_pem_private_key(pair.private, None))
        return cls(key, x509.load_pem_x509_certificate(pair.public))

    def server(self, host: str) -> Pair:
        """Return a server's key and certificate, for the host by which sites reach it and this machine's own names."""
        key = generate_private_key(SECP256R1())
        names = [_general_name(each) for each in dict.fromkeys([host, *HERE])]
        begun = _begun(_common_name(host), self._certificate.subject, key.public_key(), SERVER_DAYS)
        named = begun.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(_private(key), self._signed(named, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH))

    def node(self, public: bytes, name: str) -> bytes:
        """Return a certificate for a node's public key, OpenSSH's: PEM. Raises `ValueError` for what is no key."""
        key = cast(EllipticCurvePublicKey, load_ssh_public_key(public))
        begun = _begun(_common_name(name), self._certificate.subject, key, AUTHORITY_DAYS)
        return self._signed(begun, key, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _signed(
        self, begun: x509.CertificateBuilder, key: EllipticCurvePublicKey, usage: x509.ObjectIdentifier
    ) -> bytes:
        signer = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        made = (
            begun.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
            .sign(self._key, hashes.SHA384())
        )
        return made.public_bytes(Encoding.PEM)


def ends_soon(certificate: bytes) -> bool:
    """Return whether a certificate has ended, or will within `RENEWED_DAYS`. Raises `ValueError` for what is none."""
    end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return end - datetime.now(UTC) < timedelta(days=RENEWED_DAYS)


def node_key(name: str) -> Pair:
    """Return a node's key, on the curve P-384; its name is a comment in the public one."""
    key = generate_private_key(SECP384R1())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return Pair(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), public + f" {name}\n".encode())


def public_key_in(path: Path, name: str) -> bytes:
    """Return a node's public key that a site has made, with its name as a comment.

    Raises `InputError` for a file that is none: of OpenSSH, on one of NIST's curves.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    if b"PRIVATE KEY" in content:
        raise InputError(f"{path} is a private key, which stays at its site; the server takes {PUBLIC_KEY} beside it.")
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is no public key of OpenSSH: {str(error).rstrip('.')}.") from error
    if not (isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, CURVES)):
        raise InputError(f"{path} must be a key on a curve P-256, P-384 or P-521, as 'fedgraft federation keygen' has.")
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + f" {name}\n".encode()


def fingerprint(public: bytes) -> str:
    """Return what `ssh-keygen -l` calls a public key of OpenSSH."""
    digest = sha256(b64decode(public.split()[1])).digest()
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


def key_of(certificate: bytes) -> str:
    """Return "sha256:" and the digest of a certificate's public key. Raises `ValueError` for what is no certificate."""
    key = x509.load_pem_x509_certificate(certificate).public_key()
    return f"sha256:{sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()}"


def _begun(name: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    """Begin a certificate; it is valid since yesterday, for clocks that are not quite right."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _common_name(name: str) -> x509.Name:
    """Return a name; X.509 has room for 64 characters of it, and clients look at the alternative names alone."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
