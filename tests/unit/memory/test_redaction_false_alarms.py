"""Text without secrets stays as it is: docs, code, lock files."""

# ruff: noqa: E501 - samples are easier to judge on one line

from __future__ import annotations

import base64
import hashlib
import site
import uuid
from collections import Counter
from pathlib import Path

import pytest

from memory.redaction import redact

ROOT = Path(__file__).resolve().parents[3]


def digest(name: str, text: str) -> str:
    return hashlib.new(name, text.encode()).hexdigest()


def sri(text: str) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(text.encode()).digest()).decode()


SHA1, SHA256, MD5 = digest("sha1", "a"), digest("sha256", "a"), digest("md5", "a")
UUID = str(uuid.uuid5(uuid.NAMESPACE_DNS, "example"))
B64 = base64.b64encode(b"".join(hashlib.sha256(bytes([n])).digest() for n in range(60))).decode()

DASHES = "-" * 5

BENIGN = {
    "package-lock": '"node_modules/a": {\n  "version": "1.2.3",\n  "resolved": '
    f'"https://packages.example/npm/a/-/a-1.2.3.tgz",\n  "integrity": "{sri("a")}"\n}}',
    "yarn.lock": f'a@^1.0:\n  version "1.0.2"\n  resolved "https://x/a.tgz#{SHA1}"\n  integrity {sri("b")}',
    "pnpm-lock": f"/token-types@4.2.1:\n  resolution: {{integrity: {sri('c')}}}\n  dev: true",
    "poetry.lock": f'files = [\n  {{file = "token-1.0.whl", hash = "sha256:{SHA256}"}},\n]',
    "uv.lock": f'wheels = [{{ url = "https://x/password_strength-0.0.3.whl", hash = "sha256:{SHA256}" }}]',
    "Cargo.lock": f'[[package]]\nname = "secrecy"\nversion = "0.8.0"\nchecksum = "{SHA256}"',
    "go.sum": f"golang.org/x/oauth2 v0.8.0 h1:{B64[:43]}=\ngolang.org/x/crypto v0.1.0/go.mod h1:{B64[43:86]}=",
    "requirements": f"tokenizers==0.21.0 \\\n    --hash=sha256:{SHA256} \\\n    --hash=sha256:{SHA256[::-1]}",
    "md5sums": f"{MD5}  usr/share/doc/passwd/README\n{MD5[::-1]}  etc/secret.conf",
    "git log": f"commit {SHA1}\nAuthor: A <a@b.org>\n\n    rotate the API token (#{SHA1[:7]})",
    "git sha for token": f"the token change landed in {SHA1}, see also aws branch {SHA1[::-1]}",
    "uuid": f"token: {UUID}\nclient_secret={UUID}\nsession id {UUID}",
    "docker": f"FROM python@sha256:{SHA256}\nENV TOKENIZERS_PARALLELISM=false\nARG PASSWORD\n",
    "data image": f"![x](data:image/png;base64,{B64}) and token text",
    "svg": f'<image xlink:href="data:image/png;base64,{B64}"/>',
    "source map": f"//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpb{B64}",
    "ssh public key": f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{B64[:44]} me@host",
    "certificate": f"-----BEGIN CERTIFICATE-----\n{B64[:64]}\n{B64[64:128]}\n-----END CERTIFICATE-----",
    "public key": f"-----BEGIN PUBLIC KEY-----\n{B64[:64]}\n-----END PUBLIC KEY-----",
    "key marks in code": f'if text.startswith("{DASHES}BEGIN RSA PRIVATE KEY{DASHES}"):\n    end = "{DASHES}END RSA '
    f'PRIVATE KEY{DASHES}"\n    return parse(text)',
    "key sample": f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n...\n{DASHES}END PRIVATE KEY{DASHES}",
    "env example": "API_KEY=<your-key>\nSECRET_KEY=changeme\nDB_PASSWORD=\nTOKEN=xxxxxxxxxxxxxxxxxxxx\n"
    "GITHUB_TOKEN=ghp_" + "x" * 36 + "\nPASSWORD=${DB_PASSWORD}\nKEY=your_api_key_here\n",
    "placeholders": 'password: "<password>"\ntoken: "{{ token }}"\nsecret: %(secret)s\napi_key: "YOUR_API_KEY_123"\n'
    "password: ********\npassword: ...\nauth_token: REPLACE_ME_WITH_TOKEN_1\nsecret: null\ntoken: ~\n",
    "compose": "environment:\n  POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?set it}\n  SECRET_FILE: /run/secrets/db1\n",
    "github actions": "env:\n  TOKEN: ${{ secrets.GITHUB_TOKEN }}\npermissions:\n  id-token: write\n",
    "kubernetes": "valueFrom:\n  secretKeyRef:\n    name: db-secret-v2\n    key: password\nautomountServiceAccountToken: false",
    "terraform": 'password = var.db_password\nsecret_id = aws_secretsmanager_secret.db.id\ntoken = data.vault.x["y1"]\n',
    "python": "password = get_password(user1)\ntoken = os.environ['TOKEN1']\nself.secret = secret\napi_key: str | None = None\n"
    "def login(user: str, password: str = 'password') -> Token2: ...\ntoken = tokens[0]\npassword=password1,\n",
    "typescript": "const token: string = await getToken2();\ninterface A { password?: string; apiKey: ApiKeyV2; secret: Uint8Array }\n"
    "let accessToken = response.data.accessToken1;\n",
    "go": "type Config struct {\n\tPassword string `json:\"password\"`\n\tToken    *oauth2.Token\n}\npassword := os.Getenv(\"DB_PASS1\")\n",
    "rust": "let secret: [u8; 32] = rng.gen();\nlet token = Token::new(kind1, span2);\n",
    "solidity": "address token = address(token0);\nuint256 public token1;\nmapping(address => uint256) secret;\n",
    "sql": "CREATE TABLE users (password varchar(255) NOT NULL, token char(36), secret bytea);\n"
    "ALTER USER app PASSWORD :'pw1';\n",
    "html": '<input type="password" name="password" id="password2" placeholder="Password (8+ characters)">\n'
    '<label for="token">Token</label>',
    "i18n": '{"password": "Password", "token.expired": "Your token has expired", "secret": "Enter the 6-digit secret"}',
    "docs": "The password must have at least 8 characters and 1 digit. A token is a word of 4 characters.\n"
    "Set `password: string` or pass --token-file /etc/token1. The secret is safe. Password: required.\n",
    "chat": "Caroline: my password is the usual one, ask mom. The token is in 1Password. api key is on page 12.",
    "tokens of a model": "max_tokens: 128000\ntoken_ids = [101, 2023, 102]\neos_token: <|endoftext|>\npad_token=[PAD]\n"
    "next_page_token: CAUQAA1b2c3d4e5f6g7h8\nnum_token=4096\ntoken: 'Ġhello1'\n",
    "names": "secret_name: projects/my-app/secrets/db-password/versions/2\ntoken_url: https://login.x.org/oauth2/v2.0/token\n"
    "password_file: /run/secrets/pw1\nAPI_KEY_HEADER=X-Api-Key-2\n",
    "urls": "https://user:" + "password@host/x and postgres://postgres:" + "postgres@localhost:5432/db, http://localhost:8080/a@b,\n"
    "postgres://app:${DB_PASSWORD}@db/x, redis://:<password>@h, https://{user}:{password}@host, ssh://git@github.com:22/x\n",
    "urls without passwords": "http://example.com:8080/@scope/pkg, mongodb://h1:27017,h2:27017/x, see https://x.y/a:b@c#d\n"
    "npm i https://x/@a/b and mailto:a@b.c",
    "authorization": "Authorization: Bearer <token>\nAuthorization: Bearer $TOKEN\n'Authorization': f'Bearer {token}'\n"
    "authorization: required-by-default\nThe bearer token-authentication-scheme is old. Basic authentication is on.\n",
    "minified": "!function(e,t){var n=t.token||e.password;n=n?n.a1b2:n.c;e.secret=t.x1(n);return{token:n,password:t}}(a0,b1);",
    "hex colours": "token-color: #a1b2c3; --password-bg: #ffeedd11; secret: rgba(1,2,3,.4)",
    "sequence": "password: 12345678\napi_key = '0123456789abcdef0123456789'\ntoken = 'abcdefghijklmnop'\nsecret: 'aaaaaaaaaaaaaaaa'",
    "paths": "private_key = ~/.ssh/id_ed25519\nprivate-key: ./certs/server1.pem\naccess_key: /var/lib/keys/k1\n",
    "languages": "密码：请输入8位密码\nпароль: не менее 8 символов\nPasswort: mindestens 8 Zeichen\nパスワード: 8文字以上",
    "masked": "password: [masked:assigned-secret]\nAuthorization: Bearer [masked:jwt]\npostgres://a:[masked:connection-string-password]@h",
    "versions": "token 1.2.3-beta.4, secret==2.0.1, password-hash: argon2id$v=19, api-key: v2024-10-21",
    "snowflakes": "secret: 2024-01-01T00:00:00Z\ntoken: 1234567890123456\ncredential: 550e8400\n",
    "aws docs": f"aws s3 cp s3://bucket/{SHA1} . # arn:aws:iam::123456789012:role/MyVeryLongRoleNameForTheApplication12",
}  # fmt: skip


@pytest.mark.parametrize("name", BENIGN)
def test_text_without_a_secret_is_left_alone(name: str) -> None:
    result = redact(BENIGN[name])
    assert result.text == BENIGN[name]
    assert result.found == ()


def installed_files(limit: int) -> list[Path]:
    """Choose files of the installed packages, the same ones on every run of one machine."""
    kinds = {".py", ".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".js"}
    files = [
        path
        for folder in site.getsitepackages()
        for path in Path(folder).rglob("*")
        if path.suffix in kinds or path.name in ("METADATA", "RECORD")
    ]
    files.sort(key=lambda path: hashlib.sha256(str(path).encode()).digest())
    return files[:limit]


def test_installed_packages_and_our_own_sources_give_few_false_alarms() -> None:
    own = [path for kind in ("*.py", "*.md", "*.toml") for path in ROOT.glob(f"[a-z]*/**/{kind}")]
    files = [*installed_files(500), *(path for path in own if "tests" not in path.parts)]
    alarms: Counter[str] = Counter()
    where = []
    for path in files:
        text = path.read_bytes()[:100_000].decode("utf-8", "replace")
        for found in redact(text).found:
            alarms[found.kind] += found.count
            where.append(f"{path.name}: {found.kind}")
    count = f"{alarms.total()} alarms in {len(files)} files: {dict(alarms)} {where}"
    print(f"\n{count}")
    assert len(files) >= 300
    assert alarms.total() <= len(files) / 50
