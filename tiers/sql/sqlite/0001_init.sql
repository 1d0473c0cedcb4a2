-- The archive: every revision of every memory, and which one is current.

-- One row a memory. `seq` grows with every change of any head; `key` names the memory in this file.
CREATE TABLE memory_head (
    key           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    project       TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    content_hash  TEXT NOT NULL,
    tombstone     INTEGER NOT NULL,
    cold          INTEGER NOT NULL DEFAULT 0,
    seq           INTEGER NOT NULL UNIQUE
);
CREATE INDEX memory_head_project ON memory_head (project, id);

-- `asked` is the number under which a revision was handed over: another one when it was renumbered.
CREATE TABLE memory_revision (
    memory        INTEGER NOT NULL REFERENCES memory_head (key),
    revision      INTEGER NOT NULL,
    asked         INTEGER NOT NULL,
    content_hash  TEXT NOT NULL,
    body          TEXT NOT NULL,
    PRIMARY KEY (memory, revision)
);

-- Vectors are float16, little endian; NULL while no model could embed the text.
CREATE TABLE chunk (
    memory      INTEGER NOT NULL REFERENCES memory_head (key),
    space       TEXT NOT NULL,
    ordinal     INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    chunk_hash  TEXT NOT NULL,
    vector      BLOB,
    text        TEXT NOT NULL,
    PRIMARY KEY (memory, space, ordinal)
);
CREATE INDEX chunk_vector ON chunk (space, chunk_hash) WHERE vector IS NOT NULL;

-- No foreign key: a use may be counted before the memory arrives here.
CREATE TABLE memory_use (
    id    TEXT NOT NULL,
    task  TEXT NOT NULL,
    at    TEXT NOT NULL,
    PRIMARY KEY (id, task)
);

-- What the full-text index covers. It keeps no text of its own: rows leave it by the text of this
-- view, so they must leave before the head moves.
CREATE VIEW head_text AS
SELECT head.key,
       json_extract(revision.body, '$.name') AS name,
       json_extract(revision.body, '$.description') AS description,
       json_extract(revision.body, '$.body') AS body,
       json_extract(revision.body, '$.tags') || json_extract(revision.body, '$.keywords') AS tags
  FROM memory_head AS head
  JOIN memory_revision AS revision
    ON revision.memory = head.key AND revision.revision = head.revision
 WHERE head.tombstone = 0;

CREATE VIRTUAL TABLE memory_text USING fts5 (
    name, description, body, tags,
    content = 'head_text', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
