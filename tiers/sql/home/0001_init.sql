-- What one home knows (catalogue, placement) and what it has accepted but not yet delivered (outbox).

CREATE TABLE catalogue (
    id            TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    name          TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    content_hash  TEXT NOT NULL,
    text_hash     TEXT NOT NULL,
    tier          TEXT NOT NULL,
    tombstone     INTEGER NOT NULL DEFAULT 0,
    owner         TEXT NOT NULL DEFAULT '',
    visibility    TEXT NOT NULL DEFAULT 'project',
    expires_at    TEXT,
    updated_at    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX catalogue_text ON catalogue (project, text_hash);
CREATE INDEX catalogue_name ON catalogue (project, name);
CREATE INDEX catalogue_tier ON catalogue (project, tier);

-- Which memories replace which; the newer one hides the older from searches.
CREATE TABLE superseded (
    id  TEXT NOT NULL,
    by  TEXT NOT NULL,
    PRIMARY KEY (id, by)
) WITHOUT ROWID;
CREATE INDEX superseded_by ON superseded (by);

-- The manifest of hot files: what each path held when it was last read or written.
CREATE TABLE placement (
    project        TEXT NOT NULL,
    path           TEXT NOT NULL,
    id             TEXT NOT NULL,
    file_hash      TEXT NOT NULL,
    size           INTEGER NOT NULL,
    mtime_ns       INTEGER NOT NULL,
    inode          INTEGER NOT NULL,
    masked         INTEGER NOT NULL DEFAULT 0,  -- the file holds a secret that no tier has
    missing_since  TEXT,
    PRIMARY KEY (project, path)
) WITHOUT ROWID;
CREATE INDEX placement_id ON placement (id);

CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL,
    project      TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    record       TEXT,
    accepted_at  TEXT NOT NULL
);
CREATE INDEX outbox_id ON outbox (id);

CREATE TABLE delivery (
    seq         INTEGER NOT NULL REFERENCES outbox (seq) ON DELETE CASCADE,
    sink        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'waiting',
    attempts    INTEGER NOT NULL DEFAULT 0,
    not_before  REAL NOT NULL DEFAULT 0,
    error       TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (seq, sink)
) WITHOUT ROWID;
CREATE INDEX delivery_todo ON delivery (sink, state, seq);

-- Changes of hot files that wait for a person's word.
CREATE TABLE held (
    project  TEXT PRIMARY KEY,
    reason   TEXT NOT NULL,
    since    TEXT NOT NULL,
    paths    TEXT NOT NULL
) WITHOUT ROWID;

-- Small facts: the home's id, each hot root's last git HEAD, the archive's last seen sequence number.
CREATE TABLE fact (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) WITHOUT ROWID;
