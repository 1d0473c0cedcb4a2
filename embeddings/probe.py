"""Texts on which a backend proves that it makes the vectors of the space it claims."""

from __future__ import annotations

import numpy as np

from embeddings.embedder import Embedder, Vectors
from embeddings.errors import SpaceMismatch

#: Two backends share a space only when every probe agrees to this cosine.
AGREEMENT = 0.999

#: Changing these makes every stored set of probe vectors useless.
#:
#: What they leave out: texts of one word. There the int8 weights of all-MiniLM-L6-v2 are up to
#: 0.004 away from the reference ("yes": 0.9969; of 400 random words 7 % are below 0.999), and of
#: 300 turns of dialogue four are (lowest 0.9988); measured 2026-11. Good enough to search one index
#: with both, but agreement on the probes is no promise for every text.
PROBE_TEXTS: tuple[str, ...] = (
    "retry budget",
    "use uv, not pip",
    "We deploy on Tuesdays, never on Fridays.",
    "The staging database lives on port 5433, not on the default one.",
    "Ask before you touch anything below the folder migrations.",
    "She prefers tabs, but the repository is formatted with four spaces.",
    "Why did the nightly import fail on the second of March?",
    "Which of the two queues is drained first when the worker restarts?",
    "The flaky test was a race between the watcher and the writer; a lock around both cured it.",
    "Latency rose from 12 ms to 340 ms after the cache had been switched off for the release.",
    "Decision: keep the monolith until three teams work on it. Reason: one build, one deploy.",
    "TODO: rename the flag --fast to --skip-checks, then tell the people in the channel #infra.",
    "2026-04-17 09:30 UTC, incident 118: the certificate of the gateway had expired overnight.",
    "see https://example.org/runbooks/disk-full?step=3#cleanup before paging anybody",
    "ERROR 23505: duplicate key value violates unique constraint users_email_key",
    "def mean(values):\n    return sum(values) / len(values) if values else 0.0",
    "SELECT owner, count(*) FROM memories WHERE tier = 'hot' GROUP BY owner ORDER BY 2 DESC;",
    "for (const [key, value] of Object.entries(settings)) console.log(`${key}=${value}`);",
    'fn main() { let total: u64 = (1..=10).map(|n| n * n).sum(); println!("{total}"); }',
    "docker compose up -d --wait && curl -fsS localhost:8080/healthz",
    '{"retries": 5, "backoff": {"base_ms": 200, "max_ms": 8000}, "jitter": true}',
    "# Release\n\n1. Tag the commit.\n2. Wait for the pipeline.\n3. Announce it.\n",
    "Die Schlüssel für den Testserver liegen im Tresor, nicht im Repository.",
    "Le service de paiement répond lentement quand la file dépasse mille messages.",
    "La copia de seguridad se hace cada noche a las tres y se comprueba los lunes.",
    "Перед выпуском всегда запускайте полный набор тестов.",
    "部署之前请先备份数据库。",
    "本番環境の設定は手で変更しないでください。",
    "Η ρύθμιση αυτή ισχύει μόνο για το περιβάλλον δοκιμών.",
    "naïve café, 25 °C, ½ cup, 3 × 4 = 12 → done ✓",
    (
        "The parser reads one line at a time. It keeps the indentation of the line before, so that "
        "it can tell a nested list from a paragraph that merely begins with a dash. When a fence "
        "opens, everything up to its closing mark is taken as it stands, headings and rules "
        "included. At the end of the file an open fence is closed silently, because people forget "
        "the mark more often than they mean it. Numbers, dates and names keep their spelling; only "
        "white space at the end of a line is dropped."
    ),
    " ".join(
        f"Step {step}: open valve {step * 7 % 11}, wait for {step * 13 % 60} seconds, write the "
        f"pressure into row {step} and tell the shift leader when it is above {step * 17 % 90} bar."
        for step in range(1, 13)
    ),
)


def agree(ours: Vectors, theirs: Vectors) -> float:
    """Return the lowest cosine between rows of equal number; -1 when the shapes differ."""
    if ours.shape != theirs.shape or ours.ndim != 2 or not len(ours):
        return -1.0
    products = np.einsum("ij,ij->i", ours, theirs, dtype=np.float64)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        return -1.0
    return float((products / lengths).min())


def probe(embedder: Embedder) -> Vectors:
    """Embed the probe texts, for keeping beside an index."""
    return embedder.embed_documents(PROBE_TEXTS)


def prove(embedder: Embedder, expected: Vectors) -> None:
    """Check that an embedder reproduces the probe vectors kept beside an index.

    Raises SpaceMismatch when the lowest cosine is under `AGREEMENT`.
    """
    found = probe(embedder)
    lowest = agree(found, expected)
    if not lowest >= AGREEMENT:
        raise SpaceMismatch(
            f"{embedder.space.model} agrees with the vectors of this index only to a cosine of "
            f"{lowest:.4f}; {AGREEMENT} is needed"
        )
