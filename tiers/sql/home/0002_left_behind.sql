-- Where a memory's hot file once lay: copies of it may be kept there until the memory is forgotten.
CREATE TABLE left_behind (
    id       TEXT NOT NULL,
    project  TEXT NOT NULL,
    path     TEXT NOT NULL,
    PRIMARY KEY (id, project, path)
) WITHOUT ROWID;
