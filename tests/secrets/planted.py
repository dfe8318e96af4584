"""Secrets to plant: 60 kinds of texts that hold one, with values of generators that know nothing of the detector.

HELD_OUT names the kinds that were drawn before the first rule of the detector was written, and not looked at while the
rules were made.
"""

from __future__ import annotations

import base64
import html
import json
import random
import string
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote

WORDS: Final = (
    *("kestrel", "harbor", "violet", "tundra", "copper", "lantern", "meadow", "orchid", "falcon", "granite"),
    *("willow", "ember", "cobalt", "juniper", "saffron", "thicket", "pepper", "marble", "canyon", "drizzle"),
)
LETTERS: Final = string.ascii_letters + string.digits


class Planted(NamedTuple):
    """A text with a secret in it."""

    text: str
    secret: str
    """No part of it of PIECE characters may be left."""


PIECE: Final = 8
Make = Callable[[random.Random], Planted]


def word(draw: random.Random) -> str:
    """An ordinary word."""
    return draw.choice(WORDS)


def token(draw: random.Random, length: int = 0) -> str:
    """Letters and digits, as a key of a service."""
    return "".join(draw.choices(LETTERS, k=length or draw.randint(20, 48)))


def hexadecimal(draw: random.Random, length: int = 32) -> str:
    """As `openssl rand -hex` has it."""
    return f"{draw.getrandbits(4 * length):0{length}x}"


def encoded(draw: random.Random, length: int = 30) -> str:
    """As `openssl rand -base64` has it."""
    return base64.b64encode(draw.randbytes(length)).decode()


def safe(draw: random.Random, length: int = 24) -> str:
    """As `secrets.token_urlsafe` has it."""
    return base64.urlsafe_b64encode(draw.randbytes(length)).decode().rstrip("=")


def long_key(draw: random.Random) -> str:
    """The key of a storage account."""
    return encoded(draw, 64)


def password(draw: random.Random) -> str:
    """As a password manager makes it: 12 to 20 characters with digits and signs that need no quoting."""
    body = draw.choices(LETTERS + "!@%^*-_+.?", k=draw.randint(10, 18))
    return draw.choice(string.ascii_letters) + "".join(body) + draw.choice(string.digits)


def human(draw: random.Random) -> str:
    """As a person makes it: words, a number, a sign."""
    return f"{word(draw).capitalize()}{draw.choice('-_.')}{word(draw)}{draw.randint(10, 9999)}{draw.choice('!?*')}"


def identity(draw: random.Random) -> str:
    """A UUID."""
    return str(uuid.UUID(int=draw.getrandbits(128)))


def any_value(draw: random.Random) -> str:
    """One of all sorts."""
    sorts: tuple[Callable[[random.Random], str], ...] = (token, hexadecimal, encoded, safe, password, human, identity)
    return draw.choice(sorts)(draw)


def plain_value(draw: random.Random) -> str:
    """One of letters, digits, `-` and `_` alone."""
    return draw.choice((token, hexadecimal, safe))(draw)


def after(before: str, value: Callable[[random.Random], str] = any_value, behind: str = "") -> Make:
    """A value between two texts, in which `{word}` stands for an ordinary word."""

    def make(draw: random.Random) -> Planted:
        secret = value(draw)
        return Planted(before.replace("{word}", word(draw)) + secret + behind.replace("{word}", word(draw)), secret)

    return make


def _aws(draw: random.Random) -> Planted:
    secret, name = "".join(draw.choices(LETTERS + "/+", k=40)), "".join(draw.choices(string.ascii_uppercase, k=16))
    text = f"[default]\naws_access_key_id = AKIA{name}\naws_secret_access_key = {secret}\nregion = eu-north-1"
    return Planted(text, secret)


def _escaped(times: int) -> Make:
    def make(draw: random.Random) -> Planted:
        secret = any_value(draw)
        text = json.dumps({"user": word(draw), "password": secret, "port": 5432})
        for _ in range(times):
            text = json.dumps({"body": text})
        return Planted(text, secret)

    return make


def _basic(draw: random.Random) -> Planted:
    secret = base64.b64encode(f"{word(draw)}:{password(draw)}".encode()).decode()
    return Planted(f"GET /v1/items HTTP/1.1\nAuthorization: Basic {secret}\nAccept: */*", secret)


def _percent(draw: random.Random) -> Planted:
    secret = quote(password(draw) + "/@:", safe="")
    return Planted(f"mongodb+srv://{word(draw)}:{secret}@cluster0.example.net/{word(draw)}?retryWrites=true", secret)


def _split(draw: random.Random, between: str, before: str = "> aws_secret_access_key = ") -> Planted:
    secret = token(draw, 40)
    at = draw.randint(12, 28)
    return Planted(f"{before}{secret[:at]}{between}{secret[at:]}\n> region = {word(draw)}", secret)


def _private_key(kind: str) -> Make:
    def make(draw: random.Random) -> Planted:
        lines = [encoded(draw, 48) for _ in range(draw.randint(4, 12))]
        text = f"-----BEGIN {kind}-----\n" + "\n".join(lines) + f"\n-----END {kind}-----\n"
        return Planted(f"cat id\n{text}done", "\n".join(lines))

    return make


def _docker(draw: random.Random) -> Planted:
    secret = base64.b64encode(f"{word(draw)}:{token(draw)}".encode()).decode()
    return Planted(json.dumps({"auths": {"registry.example.com": {"auth": secret}}}, indent=2), secret)


def _kubernetes(draw: random.Random) -> Planted:
    secret = base64.b64encode(password(draw).encode()).decode()
    text = (
        f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: {word(draw)}\ntype: Opaque\ndata:\n  {word(draw)}: {secret}"
    )
    return Planted(text, secret)


def _jwt(draw: random.Random) -> Planted:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": word(draw), "iat": draw.randint(1, 10**9)})]
    body = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    secret = f"{body}.{safe(draw, 32)}"
    return Planted(f"the response was {secret} as expected", secret)


def _env_list(draw: random.Random) -> Planted:
    secret = any_value(draw)
    container = {"Id": hexadecimal(draw), "Env": ["PATH=/usr/bin:/bin", f"DB_PASSWORD={secret}"]}
    return Planted(json.dumps([container], indent=1), secret)


def _block(draw: random.Random) -> Planted:
    lines = [token(draw, 32) for _ in range(3)]
    body = "".join(f"    {line}\n" for line in lines)
    return Planted(f"database:\n  password: |\n{body}  port: 5432", "\n".join(lines))


def _form(before: str, length: int, behind: str = "", alphabet: str = LETTERS) -> Make:
    """A token by its own form, without a name before it."""

    def make(draw: random.Random) -> Planted:
        secret = before + "".join(draw.choices(alphabet, k=length)) + behind
        return Planted(f"I used {secret} for {word(draw)}", secret)

    return make


def _webhook(draw: random.Random) -> Planted:
    upper = string.ascii_uppercase + string.digits
    secret = f"T{''.join(draw.choices(upper, k=9))}/B{''.join(draw.choices(upper, k=9))}/{token(draw, 24)}"
    return Planted(f"posts to https://hooks.slack.com/services/{secret} every hour", secret)


KINDS: Final[dict[str, Make]] = {
    "aws credentials file": _aws,
    "env file": after("# {word}\nPASSWORD=", behind="\nDEBUG=1"),
    "exported variable": after("export API_TOKEN=", plain_value, "\n./deploy {word}"),
    "yaml": after("database:\n  host: {word}\n  password: ", behind="\n  port: 5432"),
    "yaml block": _block,
    "json": _escaped(0),
    "json in json": _escaped(1),
    "json in json in json": _escaped(2),
    "bearer header": after("curl -H 'Authorization: Bearer ", safe, "' https://{word}.example.com/"),
    "basic header": _basic,
    "cookie": after("Cookie: theme=dark; sessionid=", plain_value, "; lang=en"),
    "api key header": after("X-Api-Key: ", plain_value, "\nAccept: {word}"),
    "database address": after("postgres://{word}:", plain_value, "@db.example.com:5432/{word}"),
    "percent-encoded address": _percent,
    "libpq words": after("host=db.example.com user={word} password=", password, " dbname={word}"),
    "jdbc": after("jdbc:mysql://db.example.com:3306/{word}?user=root&password=", plain_value, "&useSSL=false"),
    "odbc": after("Driver={SQL Server};Server={word};Uid=sa;Pwd=", token, ";Encrypt=yes"),
    "query": after("GET https://api.example.com/{word}?page=2&token=", plain_value, "&sort=asc 200"),
    "split quoted": lambda draw: _split(draw, "\n> "),
    "wrapped": lambda draw: _split(draw, "\\\n    ", "  export SECRET_TOKEN="),
    "netrc": after("machine api.example.com login {word} password ", password, "\nmachine {word}"),
    "npmrc": after("//registry.npmjs.org/:_authToken=", plain_value, "\nsave-exact=true"),
    "pgpass": after("db.example.com:5432:{word}:admin:", password),
    "rsa key": _private_key("RSA PRIVATE KEY"),
    "openssh key": _private_key("OPENSSH PRIVATE KEY"),
    "docker config": _docker,
    "ini": after("[server]\nuser = {word}\npasswd = ", behind="\nport = 25"),
    "toml": after('[api]\nclient_secret = "', behind='"\ntimeout = 30'),
    "properties": after("spring.datasource.username={word}\nspring.datasource.password=", behind="\n"),
    "curl user": after("curl -s -u {word}:", password, " https://{word}.example.com/"),
    "option": after("backup --user {word} --password ", plain_value, " --verbose"),
    "environment in json": _env_list,
    "python": after('API_KEY = "', behind='"\nBASE = "https://{word}"'),
    "camel case": after("const options = { user: '{word}', secretKey: '", behind="', retries: 3 };"),
    "xml element": after("<server><id>{word}</id><password>", plain_value, "</password></server>"),
    "xml attribute": after('<property name="connection.password" value="', plain_value, '"/>'),
    "hcl": after('resource "db" "{word}" {\n  master_password = "', behind='"\n}'),
    "kubernetes": _kubernetes,
    "github": _form("ghp_", 36),
    "anthropic": _form("sk-ant-api03-", 93, "AA", LETTERS + "-_"),
    "slack": _form("xoxb-48213377", 36, "", LETTERS),
    "google": _form("AIza", 35, "", LETTERS + "-_"),
    "jwt": _jwt,
    "gitlab": _form("glpat-", 20, "", LETTERS + "-_"),
    "hugging face": _form("hf_", 34, "", string.ascii_letters),
    "sql": after("CREATE USER {word} WITH PASSWORD '", behind="';"),
    "php": after("define('DB_PASSWORD', '", behind="');"),
    "container environment": after("env:\n- name: DB_PASSWORD\n  value: ", plain_value, "\n- name: {word}"),
    "table": after("| name | value |\n|---|---|\n| API_TOKEN | ", plain_value, " |"),
    "prose": after("By the way, my password is ", human, " and the user is {word}."),
    "mysql": after("mysql -h db.example.com -u root -p", token, " {word} < dump.sql"),
    "docker run": after("docker run -d -e POSTGRES_PASSWORD=", plain_value, " postgres:16"),
    "powershell": after('$env:CLIENT_SECRET = "', behind='"; ./run.ps1 {word}'),
    "azure storage": after("DefaultEndpointsProtocol=https;AccountName={word};AccountKey=", long_key, ";Suffix=core"),
    "log line": after('level=info msg="signed in" user={word} access_token=', plain_value, " took=3ms"),
    "environment in python": after('os.environ["STRIPE_API_KEY"] = "', behind='"'),
    "git remote": after("origin https://{word}:", plain_value, "@git.example.com/{word}/{word}.git (fetch)"),
    "webhook": _webhook,
    "wireguard": after("[Interface]\nAddress = 10.7.0.2/24\nPrivateKey = ", lambda draw: encoded(draw, 32), "\n"),
    "form": after("POST /login\n\nusername={word}&password=", plain_value, "&remember=on"),
}  # fmt: skip

HELD_OUT: Final = frozenset(random.Random(20261128).sample(sorted(KINDS), 10))
"""Kinds that no rule was tried on before it was finished."""


def planted(names: frozenset[str], times: int = 6, seed: int = 7) -> list[tuple[str, Planted]]:
    """`times` texts of each of these kinds, with the kind's name."""
    return [(name, KINDS[name](random.Random(f"{seed}/{name}/{at}"))) for name in sorted(names) for at in range(times)]


def leaks(secret: str, text: str) -> bool:
    """Whether a part of the secret is left in the text."""
    pieces = (line[at : at + PIECE] for line in secret.split("\n") for at in range(max(1, len(line) - PIECE + 1)))
    return any(piece in text for piece in pieces)


def formed(form: str, draw: random.Random) -> Planted:
    """A text of one of `tests.secrets.forms`, with a value that may stand there unquoted."""
    sorts: tuple[Callable[[random.Random], str], ...] = (token, hexadecimal, human)
    secret = draw.choice(sorts if "{at}" not in form else (token, hexadecimal))(draw)
    return Planted(form.replace("@", secret).replace("{at}", "@"), secret)


def quoted(text: str) -> str:
    """The text behind quote marks, as a prompt has it."""
    return "\n".join(f"> {line}" for line in text.split("\n"))


PLACES: Final[dict[str, Callable[[str], str]]] = {
    "a message": "A person said:\n{}\n\nWhat do you do?".format,
    "a thought": lambda text: f"Your thought:\n{quoted(text)}\n\nDecide.",
    "a result": lambda text: f"- filesystem.read .env: success\n{quoted(text)}\n\nDecide.",
    "a note": lambda text: f"What you remember:\n- {' '.join(text.split())}\n\nDecide.",
    "a goal": lambda text: f"Goals:\n- {' '.join(text.split())}\n  its check: the file a.txt exists\n\nDecide.",
    "a reflection": lambda text: f"What you reflected:\n{quoted(text)}\n\nDecide.",
    "a call": lambda text: f'TOOL: filesystem(operation="write", path="a", content={json.dumps(text)})',
    "a log line": lambda text: json.dumps({"level": "info", "event": text}),
    "a numbered file": lambda text: "\n".join(f"{at:>6}\t{line}" for at, line in enumerate(text.split("\n"), 1)),
    "an added file": lambda text: "\n".join(f"+{line}" for line in text.split("\n")),
    "a page": html.escape,
}
"""Where a text stands in what an agent reads and writes."""
