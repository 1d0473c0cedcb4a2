"""Secrets of every kind, put together at run time so that no scanner takes this file for a leak."""

from __future__ import annotations

import base64
import itertools
import json
import random
import string
from collections.abc import Iterator

import pytest

from memory.redaction import KINDS, redact

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"


def drawn(alphabet: str, length: int, seed: int) -> str:
    """Draw a text with at least one of each kind of character that the alphabet has."""
    source = random.Random(seed)
    kinds = [kind for kind in (str.isdigit, str.islower, str.isupper) if any(map(kind, alphabet))]
    while True:
        text = "".join(source.choices(alphabet, k=length))
        if all(any(map(kind, text)) for kind in kinds):
            return text


def b64(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def pem(kind: str, seed: int, *, end: bool = True, newline: str = "\n") -> str:
    lines = [drawn(ALNUM + "+/", 64, seed * 100 + n) for n in range(6)]
    closing = [f"-----{'END'} {kind}-----"] if end else []
    return newline.join([f"-----{'BEGIN'} {kind}-----", *lines, "QmFzZTY0=", *closing])


def secrets(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield kind, secret and a text around it with `{}` in its place."""

    numbers = itertools.count(seed * 1000)

    def any_of(length: int, alphabet: str = ALNUM) -> str:
        return drawn(alphabet, length, next(numbers))

    upper = string.ascii_uppercase + "234567"
    yield (
        "aws-access-key",
        "AKIA" + "".join(random.Random(seed).choices(upper, k=16)),
        "key {} here",
    )
    yield "aws-access-key", "ASIA" + "".join(random.Random(seed).choices(upper, k=16)), "id={}&x=1"
    aws = any_of(40, ALNUM + "+/")
    yield "aws-secret-key", aws, "aws_secret_access_key = {}"
    yield "aws-secret-key", aws, "AWS_SECRET_ACCESS_KEY={}"
    yield "aws-secret-key", aws, '"SecretAccessKey": "{}",'
    yield "aws-secret-key", aws, "[default] # aws\nregion = eu-west-1\nkey\t{}\n"
    for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"):
        yield "github-token", prefix + any_of(36), "git clone with {}."
    yield "github-token", "github_pat_" + any_of(22) + "_" + any_of(59), "token：{}。"
    yield "gitlab-token", "glpat-" + any_of(20, URLSAFE), "PRIVATE-TOKEN: {}"
    yield "gitlab-token", "glpat-" + any_of(27) + ".01." + any_of(9, HEX), "use {} there"
    yield "gitlab-token", "glrt-" + any_of(20, URLSAFE), "runner {}"
    yield "slack-token", f"xoxb-{any_of(12, '0123456789ABCabc')}-{any_of(24)}", "SLACK={}"
    yield "slack-token", f"xoxe.xoxp-1-{any_of(60)}", "'{}'"
    yield "slack-token", f"xapp-1-A{any_of(10)}-123456-{any_of(64, HEX)}", "({})"
    hook = f"T{any_of(9)}/B{any_of(9)}/{any_of(24)}"
    yield "slack-webhook", hook, "post to https://hooks.slack.com/services/{} daily"
    yield "stripe-key", "sk_" + "live_" + any_of(24), "stripe.api_key = '{}'"
    yield "stripe-key", "rk_" + "test_" + any_of(99), "{}"
    yield "stripe-key", "whsec_" + any_of(32), "STRIPE_WEBHOOK: {}"
    yield "google-api-key", "AIza" + any_of(35, URLSAFE), "https://maps/?key={}&v=3"
    yield "google-api-key", "GOCSPX-" + any_of(28, URLSAFE), '"client_secret":"{}"'
    yield "google-api-key", "ya29." + any_of(120, URLSAFE), "access {}"
    yield (
        "anthropic-key",
        "sk-ant-api03-" + any_of(93, URLSAFE) + "AA",
        "export ANTHROPIC_API_KEY={}",
    )
    yield "anthropic-key", "sk-ant-oat01-" + any_of(80, URLSAFE), "密钥{}是"
    yield "openai-key", "sk-proj-" + any_of(120, URLSAFE), "OPENAI_API_KEY={}"
    yield "openai-key", "sk-" + any_of(20) + "T3BlbkFJ" + any_of(20), "openai {}"
    yield "openai-key", "sk-or-v1-" + any_of(64, HEX), "router {}"
    yield "huggingface-token", "hf_" + any_of(34), "HF_TOKEN={}"
    yield "huggingface-token", "api_org_" + any_of(34), "login {}"
    yield "npm-token", "npm_" + any_of(36), "NPM {}"
    yield "npm-token", any_of(36, HEX + "-"), "//packages.example/npm/:_authToken={}"
    yield "pypi-token", "pypi-AgEIcHlwaS5vcmc" + any_of(140, URLSAFE), "password = {}"
    yield "sendgrid-key", f"SG.{any_of(22, URLSAFE)}.{any_of(43, URLSAFE)}", "mail {}"
    yield "twilio-key", "SK" + any_of(32, HEX), "sid {}"
    yield "twilio-key", any_of(32, HEX), "TWILIO_AUTH_TOKEN={}"
    account = any_of(86, ALNUM + "+/") + "=="
    yield (
        "azure-storage-key",
        account,
        "AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    )
    yield "azure-storage-key", any_of(43, ALNUM) + "%3D", "https://a.blob.core/x?sv=2024&sig={}"
    claims = [{"alg": "HS256", "typ": "JWT"}, {"sub": "1", "n": seed}]
    token = ".".join([*map(b64, claims), any_of(43, URLSAFE)])
    yield "jwt", token, "cookie={}; path=/"
    yield "jwt", token, "Authorization: Bearer {}"
    for kind in ("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY",
                 "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):  # fmt: skip
        yield "private-key", pem(kind, seed), "before\n{}\nafter"
    yield "private-key", pem("PRIVATE KEY", seed, end=False), "cut off:\n{}"
    yield "private-key", pem("RSA PRIVATE KEY", seed, newline="\\n"), '{{"key": "{}\\n"}}'
    yield "private-key", pem("RSA PRIVATE KEY", seed, end=False, newline="\r\n"), "{}\r\nand so on"
    for scheme in ("postgres", "postgresql+psycopg", "mysql", "mongodb+srv", "rediss", "amqp"):
        yield "connection-string-password", any_of(12), scheme + "://app:{}@db.internal:5432/x"
    yield "connection-string-password", "hunter" + "2", "redis://:{}@cache/0"
    yield "connection-string-password", any_of(6) + "/#" + any_of(5), "postgres://app:{}@db/x"
    yield "basic-auth-url", any_of(10), "https://deploy:{}@git.example.org/x.git"
    yield "basic-auth-url", any_of(8) + "%40" + any_of(4), "pip --index-url http://u:{}@pypi.local/"
    yield "basic-auth-url", any_of(6) + "@" + any_of(5), "https://u:{}@host/path"
    yield "authorization-header", any_of(40), "Authorization: Bearer {}"
    yield "authorization-header", any_of(40), "curl -H 'Authorization: token {}' https://x"
    yield "authorization-header", any_of(48, URLSAFE), '{{"authorization": "Bearer {}"}}'
    yield "authorization-header", b64(f"user:{any_of(8)}".encode()), "Authorization: Basic {}"
    yield "authorization-header", any_of(32), "sent as Bearer {} from now on"
    for template in (
        "PASSWORD={}", "export DB_PASSWORD='{}'", "password: {}", '  "password": "{}",',
        "db.password = {}", "the prod password is {}.", "mysql --password {} -h db",
        "tool --password={}", "Server=x;Password={};Database=y", '{{\\"password\\": \\"{}\\"}}',
        "Passwort: {}", "密码：{}", "<password>{}</password>", "- pwd: {}  # old",
        "PGPASSWORD={} psql", "connect(user='a', passwd='{}')", "ADMIN_PASS={}",
        "pass_phrase = `{}`", "* **Password:** {}",
    ):  # fmt: skip
        yield "assigned-secret", any_of(11), template
    for template in (
        "PASSWORD={}", "my password is {}", "pw: {}", "machine h login u password {}",
        "PGPASSWORD={} psql -h db", "tool --password={} -v", "docker run -e DB_PASSWORD={} image",
        "https://x/login?user=a&password={}&next=b",
    ):  # fmt: skip
        yield "assigned-secret", "hunter" + "22", template
    yield "assigned-secret", "correct" + "horsebattery", "DB_PASSWORD={}\n"
    yield "assigned-secret", "abcd1234" + "efgh5678", "API key: {}"
    yield "basic-auth-url", any_of(9), "curl -s -u admin:{} https://x"
    yield (
        "private-key",
        pem("RSA PRIVATE KEY", seed)[:44] + f"\n-----{'END'} RSA PRIVATE KEY-----",
        "{}",
    )
    yield "assigned-secret", "Tr0ub4dor" + "&3,x(y)", "the password is {} until May"
    yield "assigned-secret", "p@ss,w0rd;" + "1", "PASSWORD={}\nOTHER=1"
    for odd in ("!Summer24", "#Summer24", "$ummer24!", "@Summer24", "8374" + "92720"):
        yield "assigned-secret", odd, 'password = "{}"'
    for template in (
        'api_key = "{}"', "API_KEY={}", "apiKey: '{}',", '"client_secret": "{}"', "secret: {}",
        'os.environ["SERVICE_TOKEN"] = "{}"', "x-api-key: {}", "access_token={}&expires=1",
        "SECRET_KEY_BASE={}", "token := \"{}\"", "const authToken = `{}`;", "refresh_token => '{}'",
        "?token={}", "signing-key: {}", "curl -H 'X-Auth-Key: {}'",
    ):  # fmt: skip
        yield "assigned-secret", any_of(32), template
        yield "assigned-secret", any_of(40, HEX), template


CORPUS = [each for seed in (1, 2, 3) for each in secrets(seed)]


def leftover(secret: str, text: str) -> str | None:
    """Find a piece of eight characters of the secret that is still in the text."""
    pieces = (secret[at : at + 8] for at in range(max(len(secret) - 7, 1)))
    return next((piece for piece in pieces if piece in text and "-----" not in piece), None)


def test_at_least_95_of_100_secrets_are_masked_and_nothing_of_them_is_left() -> None:
    missed = []
    for kind, secret, template in CORPUS:
        text = template.format(secret)
        result = redact(text)
        if leftover(secret, result.text) or not result.found:
            missed.append((kind, template))
    count = f"{len(CORPUS) - len(missed)} of {len(CORPUS)} secrets masked; missed: {missed}"
    print(f"\n{count}")
    assert len(CORPUS) >= 60
    assert len(missed) <= 0.05 * len(CORPUS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_under_its_name_and_can_be_allowed(kind: str) -> None:
    told = [(secret, template) for name, secret, template in CORPUS if name == kind]
    found = [redact(template.format(secret)).found for secret, template in told]
    named = [any(each.kind == kind for each in kinds) for kinds in found]
    assert told
    assert sum(named) >= 0.9 * len(named)

    secret, template = told[0]
    text = template.format(secret)
    assert kind not in {each.kind for each in redact(text, allow=frozenset({kind})).found}
    assert redact(text, allow=frozenset(KINDS)).text == text


def test_what_stands_around_a_secret_stays() -> None:
    for kind, secret, template in CORPUS:
        masked = redact(template.format(secret)).text
        before, _, after = template.format("\0").partition("\0")
        assert masked.startswith(before), (kind, template)
        assert masked.endswith(after.lstrip(".,。")), (kind, template)


def test_masking_masked_text_changes_nothing() -> None:
    for _, secret, template in CORPUS:
        once = redact(template.format(secret)).text
        assert redact(once).text == once
        assert not redact(once).found


def test_all_secrets_in_one_text_are_masked_and_counted() -> None:
    text = "\n\n".join(template.format(secret) for _, secret, template in CORPUS)
    result = redact(text)
    left = [secret for _, secret, _ in CORPUS if leftover(secret, result.text)]
    assert len(left) <= 0.05 * len(CORPUS)
    assert {each.kind for each in result.found} == set(KINDS)
    assert sum(each.count for each in result.found) >= 0.9 * len(CORPUS)
    assert [each.kind for each in result.found] == sorted(each.kind for each in result.found)
