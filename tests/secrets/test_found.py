"""Secrets of 60 kinds are found, ten of them kinds that no rule was made for; ordinary lines hold none."""

from __future__ import annotations

import html
import json
import random
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.secrets import HIDDEN, SecretSigns, hide_secrets, may_become_secret, secret_spans
from tests.secrets.forms import FORMS
from tests.secrets.planted import HELD_OUT, KINDS, PLACES, formed, leaks, planted, quoted

ROOT = Path(__file__).parents[2]
TEXTS = [text for _, (text, _) in planted(frozenset(KINDS), 2, seed=3)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_secret_of_a_kind_is_left(kind: str) -> None:
    """Whatever generator its value is of, and also behind quote marks, in a call and as JSON within JSON."""
    assert [
        made.text for _, made in planted(frozenset((kind,)), 20) if leaks(made.secret, hide_secrets(made.text))
    ] == []


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_of_a_form_is_left_where_it_is_quoted(form: str) -> None:
    """As the argument of a call, as JSON, as JSON within JSON, behind quote marks: as it is where it stands alone."""
    made = formed(form, random.Random(form))
    argument = json.dumps(made.text)
    texts = [
        f'TOOL: notes(operation="remember", text={argument})',
        f"> you did: notes(text={argument})",
        argument,
        json.dumps({"tail": argument}),
        quoted(made.text),
    ]

    assert [text for text in texts if leaks(made.secret, hide_secrets(text))] == []


def test_there_are_kinds_that_were_held_out() -> None:
    """Ten of sixty, drawn by lot."""
    assert (len(KINDS), len(HELD_OUT)) == (60, 10)


def test_the_page_on_security_counts_the_forms() -> None:
    """Its table names as many further forms as `ops/bench redaction` plants."""
    page = (ROOT / "docs" / "pages" / "security.md").read_text()

    assert f"| {len(FORMS)} further forms, in files, commands, calls and sentences | {len(FORMS) * 20:,} | 0 |" in page


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("PASSWORD=hunter2-x9", "PASSWORD={}"),
        ('{"password": "a\\"b9-\\"x7"}', '{{"password": "{}"}}'),
        ('{\\"password\\": \\"hunter2-x9\\"}', '{{\\"password\\": \\"{}\\"}}'),
        ("> password:\n> 'Xk7-hunter2'", "> password:\n> '{}'"),
        ("postgres://me:p%40ss-9@db/x", "postgres://me:{}@db/x"),
        ("user,password\nbob,hunter2-x9", "user,password\nbob,{}"),
        ("INSERT INTO u (id, password) VALUES (1, 'hunter2-x9');", "INSERT INTO u (id, password) VALUES (1, '{}');"),
        ("curl -u bob:hunter2-x9 https://x", "curl -u bob:{} https://x"),
        ("db.example.com:5432:*:bob:hunter2-x9", "db.example.com:5432:*:bob:{}"),
        ("ENV API_TOKEN QQdltpLTANnw", "ENV API_TOKEN {}"),
        ("setenv API_TOKEN QQdltpLTANnw", "setenv API_TOKEN {}"),
        ("API_TOKEN ?= QQdltpLTANnw", "API_TOKEN ?= {}"),
        ("heroku config:set SECRET_KEY_BASE=*0O21kd9xkqQw", "heroku config:set SECRET_KEY_BASE={}"),
        ("> api_key=48y8b9x1q\n> UTD\n> x", "> api_key={0}\n> {0}\n> x"),
        ("\x1b[32mpassword\x1b[0m: \x1b[1mhunter2-x9\x1b[0m", "\x1b[32mpassword\x1b[0m: \x1b[1m{}\x1b[0m"),
        ("パスワード: hunter2-x9", "パスワード: {}"),
        ("<key>apiKey</key>\n<string>a1b2c3d4e5f6a7b8</string>", "<key>apiKey</key>\n<string>{}</string>"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc", "{}"),
        ("abcdefghijklmnop/+12\n-----END RSA PRIVATE KEY-----\nx", "{}\nx"),
    ],
)  # fmt: skip
def test_the_value_alone_is_hidden(text: str, hidden: str) -> None:
    """Its name, its quotes and what stands beside it stay."""
    assert hide_secrets(text) == hidden.format(HIDDEN)


@pytest.mark.parametrize(
    "line",
    [
        "max_tokens: 8192", "token_count = 12", "password = getpass()", "xs.sort(key=lambda x: x.name)",
        "primary_key = True",
        "token = next(tokens)", "password: str", "self.password = password", "password = os.environ['PASSWORD']",
        "key: value",
        'state_key="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"', "API_KEY=${API_KEY}",
        "PASSWORD=",
        '"action_id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"',
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d",
        "password: <your password>", "secret: !vault x", "the token is invalid", "token = tokenizer.encode(text)",
        "cache_key = f'{name}:{version}'", "https://user:password@example.com", "password = \"Enter your password\"",
        "api_key=config.api_key", "assert token == 'BEGIN'", "PWD=/home/bob/project", "http://localhost:8080/path@x",
        "author: Bob", "git commit -m 'rotate the secret key'", "- password reset link: /reset", "key = data[3:]",
        "PASS tests/unit/test_auth_flow.py::test_login_v2", "PASS: tests/unit/test_auth_flow.py::test_login_v2",
        "PASS src/auth2.test.ts", "ok 3 - pass Some_Test-12", "pass: 0x7fff5fbff8c0", "token: 0x55d4f3a0",
        'auth: OAuth2PasswordBearer(tokenUrl="token")', 'auth: Basic2Auth(user="a"', 'token ?? "default"',
        "passwd:x:1000:1000:Bob:/home/bob:/bin/bash", "/etc/passwd:bob:x:1000:1000:Bob Smith:/home/bob:/bin/bash",
        "process.env.SECRET || getSecret2()", "echo ${TOKEN:-none}", "the password for bob is wrong",
        "ENV API_TOKEN production", "> token: ok\n> END", 'ConvertTo-SecureString "$env:PASSWORD" -AsPlainText',
        'char password[64] = "";', "le mot de passe est perdu",
        "use the config as the token", "see docs/auth2.md as the password page",
        "Password:\n\nThe2nd word follows here",
        "if token (optional): str", '"file": {"key": "9f86d081884c7d659a2feaa0c55ad015"}', "token → str",
        "http GET x.org", "AUTH failed for bob", "influx query -t now", "user mode -p 12",
        'fn("password:")\nsend("ok")',
        HIDDEN, f"PASSWORD={HIDDEN}", f'{{"password": "{HIDDEN}"}}', f"password: {HIDDEN}",
    ],
)  # fmt: skip
def test_an_ordinary_line_is_left_as_it_is(line: str) -> None:
    """Names, types, calls, placeholders, counts, digests and ids; and the mask itself."""
    assert hide_secrets(line) is line


def test_ordinary_code_and_prose_hold_hardly_any() -> None:
    """Fewer than one line in 1,000 of Python's library, Conch's own sources and the documentation."""
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-h]*.py"))
    files = [*library, *sorted((ROOT / "conch").rglob("*.py")), *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [file.read_text() for file in files]

    alarms = [text[start - 40 : end + 20] for text in texts for start, end in secret_spans(text)]

    assert sum(text.count("\n") for text in texts) > 100_000
    assert len(alarms) < 10, alarms


@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=8), max_size=4).map(" ".join))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    """What was hidden is no secret again, and nothing beside it becomes one."""
    once = hide_secrets(text)

    assert hide_secrets(once) == once


@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=8), max_size=6))
def test_the_signs_of_many_texts_are_in_each_that_holds_a_secret(texts: list[str]) -> None:
    """A quick look passes over no text with a secret."""
    signs = SecretSigns("\n".join(texts))

    assert [text for text in texts if secret_spans(text) and not signs.in_text(text)] == []


@pytest.mark.parametrize(
    "line", ["password: hun", 'the "apiKey": "a1b', "TOKEN=a", "I use ghp_a1B2a1B2a1", "my password is K"]
)
def test_a_word_that_may_become_a_secret_is_known(line: str) -> None:
    """It is long, or behind a name: what still grows is shown without it."""
    assert may_become_secret(line)
    assert not may_become_secret("the tide comes and goes")


HOSTILE = [
    "password=", 'password = "', '\\"password\\": \\"', "\\", "key: ", "pass:", "://a:b", "://u:p@h,",
    "token" + " " * 80,
    "password:\n", "password|x\n", "password:\n  - ", "password: |\n", "-----BEGIN RSA PRIVATE KEY-----\n",
    "x:1:a:b:c ",
    "-----END RSA PRIVATE KEY-----", "a." * 20 + "w" * 20, "eyJ" + "a" * 20 + ".", "$2b$", 'auth("a","', "mysql -p",
    "kind: Secret\ndata:\n", '{"kty":"d":"', "cookie: a=b;", "Authorization: Digest ", "(password) VALUES (1),",
    "chpasswd ",
    "<password ", 'password" value', "name: PASSWORD\n  type: a\n", 'password: ["a",', "password=a.b.c.",
    "password=a/b/",
    "TOKEN=" + "x1Y2" * 20 + "\n" + "x1Y2" * 10 + "\n", "0" * 64 + " ", "パスワード: ", "password for x ", "İ",
    "\x1b[3", "\\x1b[32m", "password[", "TOKEN ||", "set TOKEN ", "ConvertTo-SecureString -a ", "passwd:x:1:",
    "> TOKEN=a1b2c3d4\n> UTD\n",
    "\ud800\0\r",
]  # fmt: skip


@pytest.mark.parametrize(
    "part", [*HOSTILE, "".join(random.Random(1).choices("password=:\"'\\ \n>-|{}[]()<>tok.$%&;,@/", k=400))]
)
def test_the_time_grows_with_the_length(part: str) -> None:
    """A MiB of whatever begins like a secret takes seconds, where the square of the length would take hours."""
    text, began = (part * (2**20 // len(part) + 1))[: 2**20], time.process_time()

    hide_secrets(text)

    assert time.process_time() - began < 30


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_found_in_each_place(place: str) -> None:
    """Behind quote marks, line numbers and the signs of added lines, in a list, a call, a log line and a page."""
    missed = []
    for name, made in planted(frozenset(KINDS), 4):
        hidden = hide_secrets(PLACES[place](made.text))
        if leaks(made.secret, hidden) or leaks(made.secret, html.unescape(hidden)):
            missed.append((name, hidden))
    assert missed == []


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_each_form(form: str) -> None:
    """In files, commands, calls and talk of all sorts."""
    made = [formed(form, random.Random(f"{form}/{at}")) for at in range(6)]

    assert [plant.text for plant in made if leaks(plant.secret, hide_secrets(plant.text))] == []
