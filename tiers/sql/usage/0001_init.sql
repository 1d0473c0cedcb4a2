-- Which memories searches gave, and what was said of them afterwards: no texts, no questions.
-- Times are seconds since 1970.

-- `key` names the receipt in this file, so that its rows below are small.
CREATE TABLE receipt (
    key      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    project  TEXT NOT NULL,
    owner    TEXT NOT NULL,
    at       INTEGER NOT NULL
);
CREATE INDEX receipt_at ON receipt (at);

CREATE TABLE shown (
    receipt  INTEGER NOT NULL REFERENCES receipt (key) ON DELETE CASCADE,
    memory   TEXT NOT NULL,
    PRIMARY KEY (receipt, memory)
) WITHOUT ROWID;
CREATE INDEX shown_memory ON shown (memory);

-- Outlives its receipt, since it is what use is counted from; `receipt` is the id.
CREATE TABLE verdict (
    receipt  TEXT NOT NULL,
    memory   TEXT NOT NULL,
    verdict  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (receipt, memory)
) WITHOUT ROWID;
CREATE INDEX verdict_memory ON verdict (memory, verdict);
