"""The address of a store without its secret, which the environment alone holds: of this process and of its workers."""

import json
import os
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

from mqlearn.errors import SettingError

STORES = "MQLEARN_STORES"  # environment variable: whole addresses by what is shown of them, in JSON
_USUAL = "MLFLOW_TRACKING_URI"
_OTHERS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_MARK = "***"
_SCHEME = r"[A-Za-z][\w+.-]*://"
_SECRET = re.compile(r"pass(?!file)|pwd|token|secret|credential|auth|signature|_?key$(?<!sslkey)|odbc_connect", re.I)
_PARAMETER = re.compile(r"[?&;]([^=&;?@/]+)=(.*?)(?=[?&;][\w.%~-]+=|$)", re.S)
# An address in an argument, in quotes or not: to the quote's end, or to where the next value of a list begins.
_IN_ARGUMENT = re.compile(
    rf"(?P<quote>['\"])(?P<quoted>{_SCHEME}(?:\\.|(?!(?P=quote)).)*)"
    rf"|(?P<plain>{_SCHEME}.*?)(?=,\s*(?:['\"]|{_SCHEME}|[a-z_]+:)|[)}}\]]*$)",
    re.S,
)
_ESCAPED = re.compile(r"\\([\\()\[\]{}:=, \t'\"])")
_GIVEN = re.compile(r"(?P<before>[+~]*tracking\.uri=)(?P<quote>['\"]?)(?P<text>.*)(?P=quote)", re.S)


class Address(str):
    """A store's address as it may be printed, pickled and written down: *** stands for password, token and the like.

    It may be made of the whole address, whose secret then goes into the environment; workers inherit that.
    """

    def __new__(cls, text: str) -> "Address":
        text = _normal(str(text))
        shown = _shown(text)
        if shown != text:
            os.environ[STORES] = json.dumps(_stores() | {shown: text})
        return super().__new__(cls, shown)

    def __eq__(self, other: object) -> bool:
        """An address equals the whole one that it was made of, too."""
        return isinstance(other, str) and str(self) == _shown(_normal(str(other)))

    def __ne__(self, other: object) -> bool:
        """Not that of str, which knows no whole address."""
        return not self == other

    __hash__ = str.__hash__

    @property
    def is_secret(self) -> bool:
        """Whether something is left out of it."""
        return any(self[start:end] == _MARK for start, end in _spans(self))

    @property
    def is_known(self) -> bool:
        """Whether the environment has what is left out of it."""
        Address(os.environ.get(_USUAL, ""))
        return not self.is_secret or self in _stores()

    @property
    def whole(self) -> str:
        """The address to connect to. Raises SettingError where the environment does not have its secret."""
        if not self.is_known:
            expected = "its password is left out, as wherever an address is written down: write it, or set " + _USUAL
            raise SettingError("tracking.uri", str(self), expected)
        return _stores().get(self, str(self))

    def scrubbed(self, text: str) -> str:
        """A text of somebody else's, without the secrets of this address and of MLflow's variables."""
        whole = _stores().get(self, str(self))
        secrets = [whole[start:end] for start, end in _spans(whole)]
        secrets = [secret for secret in (*secrets, *map(os.environ.get, _OTHERS)) if secret and secret != _MARK]
        secrets += [part for secret in secrets for part in re.split("[@/?#;=]", unquote(secret)) if len(part) > 3]
        text = text.replace(whole, self)
        forms = {form for secret in secrets for form in (secret, unquote(secret), quote(secret, safe=""))}
        for form in sorted(forms, key=len, reverse=True):
            edge = r"(?<!\w)", r"(?!\w)"  # a short one may be part of any word
            text = re.sub(re.escape(form).join(edge if len(form) < 4 else ("", "")), _MARK, text)
        return text


def in_argument(argument: str) -> str:
    """An argument of the command line with each address in it as it may be shown; see `Address`."""
    given = _GIVEN.fullmatch(argument)
    if given and "://" not in argument:
        return f"{given['before']}{given['quote']}{Address(given['text'])}{given['quote']}"
    return _IN_ARGUMENT.sub(_hide, argument)


def misread(address: str) -> str:
    """What libraries would read in another way, if something in the secret of an address; else an empty text."""
    spans = [address[start:end] for start, end in _spans(address)]
    strange = "/?#" if address.lower().startswith("http") else "@"
    found = sorted({letter for secret in spans for letter in secret if letter in strange})
    return " and ".join(f"%{ord(letter):02X} for {letter}" for letter in found)


def _hide(found: re.Match[str]) -> str:
    quoted = found["quote"] or ""
    text = _ESCAPED.sub(r"\1", found["quoted"] or found["plain"])
    shown = Address(text)
    return quoted + (shown.replace(quoted, f"\\{quoted}") if quoted else shown) if shown.is_secret else found[0]


def _stores() -> dict[str, str]:
    return json.loads(os.environ.get(STORES, "{}"))


def _normal(address: str) -> str:
    """An address in the one way that it is compared."""
    address = re.sub(f"^{_SCHEME}", lambda scheme: scheme[0].lower(), address)
    return address.rstrip("/") if address.startswith("http") else address


def _shown(address: str) -> str:
    for start, end in reversed([*_spans(address)]):
        address = address[:start] + _MARK + address[end:]
    return address


def _spans(address: str) -> Iterator[tuple[int, int]]:
    """Where the secrets of an address are: before the last @, and in its parameters. Rather too much than too little.

    A name without a password is one for a server, which takes tokens so.
    """
    parameters = [found for found in _PARAMETER.finditer(address) if _SECRET.search(unquote(found[1])) and found[2]]
    scheme = re.match(_SCHEME, address)
    start = scheme.end() if scheme else 0
    region = address[start : parameters[0].start() if parameters else len(address)]
    before, at, _ = region.rpartition("@")
    if re.search("[/?#]", before.partition(":")[0]):  # it is no @ of a name
        before, at, _ = re.split("[/?#]", region, maxsplit=1)[0].rpartition("@")
    name, _, password = before.partition(":")
    if at and password:
        yield start + len(name) + 1, start + len(before)
    elif at and name and address.lower().startswith("http"):
        yield start, start + len(name)
    yield from (found.span(2) for found in parameters)
