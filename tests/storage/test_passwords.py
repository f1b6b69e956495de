"""A store's address shows no secret, whatever its form; the environment alone has it."""

import json
import os
import pickle
import random
import re
from urllib.parse import quote

import pytest

from mqlearn.errors import SettingError
from mqlearn.storage import addresses, connection, passwords
from mqlearn.storage.passwords import Address, in_argument

SECRET = "Pa55-wörd"
SHOWN = [
    ("postgresql+psycopg://h/db?user=u&password=S", "postgresql+psycopg://h/db?user=u&password=***"),
    ("postgresql://h:5432/db?user=u&password=S@S&x=1", "postgresql://h:5432/db?user=u&password=***&x=1"),
    ("postgresql://u:S@h:5432/db", "postgresql://u:***@h:5432/db"),
    ("postgresql://me@corp:S@h/db", "postgresql://me@corp:***@h/db"),
    ("http://u:ab@S@host", "http://u:***@host"),
    ("http://u:a/S@host:5000", "http://u:***@host:5000"),
    ("http://u:a?S#S@host:5000", "http://u:***@host:5000"),
    ("https://S@host/a", "https://***@host/a"),
    ("https://S:@host/a", "https://***:@host/a"),
    ("POSTGRESQL://U:S@H/DB?PASSWORD=S&sslpassword=S", "postgresql://U:***@H/DB?PASSWORD=***&sslpassword=***"),
    ("mysql+pymysql://h/db?passwd=S&charset=utf8", "mysql+pymysql://h/db?passwd=***&charset=utf8"),
    ("postgresql://h/db?pass%77ord=S", "postgresql://h/db?pass%77ord=***"),
    ("mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3DS", "mssql+pyodbc:///?odbc_connect=***"),
    ("https://h:5000/?access_token=S", "https://h:5000/?access_token=***"),
    ("u:S@host", "u:***@host"),
]
PLAIN = [
    "postgresql://me@h/db",
    "postgresql://me@h/db?passfile=/etc/pgpass&sslkey=/k",
    "sqlite:////a/b:c@d/x.db",
    "http://host:5000",
    "./a:b@c",
]


@pytest.mark.parametrize(("written", "shown"), SHOWN)
def test_an_address_shows_no_secret_and_knows_it(written, shown):
    whole = re.sub(r"\bS\b|(?<=3D)S", SECRET, written)
    address = Address(whole)
    assert str(address) == f"{address}" == shown and repr(address) == repr(shown)
    assert SECRET.encode() not in pickle.dumps(address)
    again = pickle.loads(pickle.dumps(address))
    assert type(again) is Address and again.whole.lower() == whole.lower()
    assert SECRET not in again.scrubbed(f"no connection to {whole}, password {SECRET} or {quote(SECRET)}")
    assert Address(shown) == shown and Address(shown).whole.lower() == whole.lower()
    assert address == whole and (address != whole) is False and address != "sqlite:////x.db"


@pytest.mark.parametrize("address", PLAIN)
def test_an_address_without_a_secret_is_what_it_is(address):
    assert Address(address) == Address(address).whole == address and not Address(address).is_secret
    assert passwords.STORES not in os.environ


def test_a_secret_that_is_not_known_is_asked_for(monkeypatch):
    with pytest.raises(SettingError, match=r"^tracking\.uri='http://u:\*\*\*@h': its password is left out.*MLFLOW_TRA"):
        _ = Address("http://u:***@h").whole
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://u:mine@h/")
    assert Address("http://u:***@h").whole == "http://u:mine@h"


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("tracking.uri='postgresql://h/db?user=u&password=S'", "tracking.uri='postgresql://h/db?user=u&password=***'"),
        ("tracking.uri=http://u:S,S@h", "tracking.uri=http://u:***@h"),
        ("tracking.uri=http://u:S@h,http://u:S@g", "tracking.uri=http://u:***@h,http://u:***@g"),
        ("tracking.uri='http://u:S@h',\"http://u:S@g\"", "tracking.uri='http://u:***@h',\"http://u:***@g\""),
        ("tracking.uri='http://u:\\'S@h'", "tracking.uri='http://u:***@h'"),
        ("+tracking.uri=u:S@h", "+tracking.uri=u:***@h"),
        ("tracking={name:mlflow,uri:http://u:S@h/x,per_seed:no}", "tracking={name:mlflow,uri:http://u:***@h/x,per_seed:no}"),
        ("hydra.job.env_set.MLFLOW_TRACKING_URI=http://u:S@h", "hydra.job.env_set.MLFLOW_TRACKING_URI=http://u:***@h"),
        ("tracking.uri=http://h:5000/", "tracking.uri=http://h:5000/"),
        ("seed=1", "seed=1"),
    ],
)  # fmt: skip
def test_an_argument_loses_its_secrets_and_nothing_else(argument, shown):
    assert in_argument(argument.replace("S", SECRET)) == shown
    for whole in json.loads(os.environ.get(passwords.STORES, "{}")).values():
        assert SECRET in whole and not whole.endswith(("'", '"', "}"))


def drawn(draw: random.Random) -> tuple[str, str]:
    """An address with a secret, and the secret as it is written there."""
    letters = "aZ9-_.~!$*+:@/?#[]%&;=ü日 "
    word = "".join(draw.choice(letters) for _ in range(draw.randrange(1, 9))) + "Qx7"
    secret = quote(word, safe="") if draw.random() < 0.5 else word
    scheme = draw.choice(("http", "https", "HTTP", "postgresql", "postgresql+psycopg", "mysql+pymysql", "mssql", "ftp"))
    host = draw.choice(("h", "h:5432", "[::1]:5000", "a.b.example"))
    if draw.random() < 0.5:
        return f"{scheme}://{draw.choice(('u', 'me', ''))}:{secret}@{host}/db", secret
    name = draw.choice(("password", "PASSWORD", "passwd", "pwd", "token", "sslpassword", "Access_Token"))
    secret = quote(word, safe="")
    return f"{scheme}://{host}/db?user=u&{name}={secret}{draw.choice(('', '&x=1'))}", secret


def test_addresses_drawn_at_random_show_nothing_of_their_secret(tmp_path):
    for seed in range(200):
        address, secret = drawn(random.Random(seed))
        shown = Address(address)
        assert "Qx7" not in shown and "Qx7" not in in_argument(f"tracking.uri='{address}'"), address
        assert shown.whole.partition(":")[2] == address.partition(":")[2]
        try:
            assert "Qx7" not in addresses.resolve_uri(address, None, tmp_path), address
        except SettingError as refused:
            assert "Qx7" not in str(refused), address
        with pytest.raises(connection.TrackingError) as failed, connection.failures("asking", address):
            raise ConnectionError(f"{address} refused the password {secret}")
        assert "Qx7" not in str(failed.value), address


@pytest.mark.parametrize(
    ("address", "letters"), [("postgresql://u:a@b@h/db", "%40 for @"), ("http://u:a/b@h", "%2F for /")]
)
def test_letters_that_libraries_read_in_another_way_are_refused(address, letters, tmp_path):
    with pytest.raises(SettingError, match=letters):
        addresses.resolve_uri(address, None, tmp_path)
