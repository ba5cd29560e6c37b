-- The tables of the store. The text is PostgreSQL's; for SQLite a few words are replaced
-- (see sqliteSchema). Times are microseconds since 1970, zero is never. Documents are
-- never NULL. Tables with small rows are marked to be clustered by their key.

CREATE TABLE leadership (
    id              BIGINT PRIMARY KEY CHECK (id = 1),
    epoch           BIGINT NOT NULL,
    holder          TEXT NOT NULL,
    address         TEXT NOT NULL,
    since           BIGINT NOT NULL,
    expires         BIGINT NOT NULL,
    revision        BIGINT NOT NULL,
    oldest_revision BIGINT NOT NULL, -- changes since an older one are not known
    last_operation  BIGINT NOT NULL,
    last_event      BIGINT NOT NULL,
    last_audit      BIGINT NOT NULL
);
INSERT INTO leadership VALUES (1, 0, '', '', 0, 0, 0, 0, 0, 0, 0);

-- Which revision each leader began with: it tells whether a commit of an earlier one took place.
CREATE TABLE epochs (
    epoch    BIGINT PRIMARY KEY,
    holder   TEXT NOT NULL,
    address  TEXT NOT NULL,
    since    BIGINT NOT NULL,
    revision BIGINT NOT NULL
);

CREATE TABLE tombstones (
    revision   BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    table_name TEXT NOT NULL,
    key        TEXT NOT NULL,
    PRIMARY KEY (revision, number)
) /* clustered */;

CREATE TABLE settings (
    name     TEXT NOT NULL,
    document BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (name)
) /* clustered */;
CREATE INDEX settings_revision ON settings (revision);

CREATE TABLE counters (
    name     TEXT NOT NULL,
    value    BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (name)
) /* clustered */;
CREATE INDEX counters_revision ON counters (revision);

CREATE TABLE trees (
    name       TEXT NOT NULL,
    config     BYTEA NOT NULL,
    attributes BYTEA NOT NULL,
    revision   BIGINT NOT NULL,
    PRIMARY KEY (name)
) /* clustered */;
CREATE INDEX trees_revision ON trees (revision);

CREATE TABLE pools (
    tree       TEXT NOT NULL,
    name       TEXT NOT NULL,
    parent     TEXT NOT NULL,
    attributes BYTEA NOT NULL,
    revision   BIGINT NOT NULL,
    PRIMARY KEY (tree, name)
) /* clustered */;
CREATE INDEX pools_revision ON pools (revision);

CREATE TABLE path_nodes (
    path       TEXT NOT NULL,
    type       TEXT NOT NULL,
    document   BYTEA NOT NULL,
    attributes BYTEA NOT NULL,
    created    BIGINT NOT NULL,
    modified   BIGINT NOT NULL,
    revision   BIGINT NOT NULL,
    PRIMARY KEY (path)
) /* clustered */;
CREATE INDEX path_nodes_revision ON path_nodes (revision);

CREATE TABLE operations (
    number             BIGINT PRIMARY KEY,
    id                 TEXT NOT NULL,
    alias              TEXT NOT NULL,
    type               TEXT NOT NULL,
    user_name          TEXT NOT NULL,
    state              TEXT NOT NULL,
    suspended          SMALLINT NOT NULL,
    title              TEXT NOT NULL,
    pools              TEXT NOT NULL,
    filter             TEXT NOT NULL,
    has_failed_jobs    SMALLINT NOT NULL,
    start_time         BIGINT NOT NULL,
    finish_time        BIGINT NOT NULL,
    brief_spec         BYTEA NOT NULL,
    runtime_parameters BYTEA NOT NULL,
    events             BYTEA NOT NULL,
    alerts             BYTEA NOT NULL,
    result             BYTEA NOT NULL,
    attributes         BYTEA NOT NULL,
    search             TEXT NOT NULL,
    revision           BIGINT NOT NULL
);
CREATE INDEX operations_revision ON operations (revision);
CREATE UNIQUE INDEX operations_id ON operations (id);
CREATE INDEX operations_alias ON operations (alias) WHERE alias <> '';
CREATE INDEX operations_live ON operations (number) WHERE finish_time = 0;
CREATE INDEX operations_start ON operations (start_time, number);
CREATE INDEX operations_user ON operations (user_name, start_time, number);
CREATE INDEX operations_finish ON operations (finish_time, number) WHERE finish_time <> 0;

CREATE TABLE operation_specs (
    operation    BIGINT PRIMARY KEY,
    provided     BYTEA NOT NULL,
    resulting    BYTEA NOT NULL,
    unrecognized BYTEA NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE INDEX operation_specs_revision ON operation_specs (revision);

CREATE TABLE operation_progress (
    operation BIGINT PRIMARY KEY,
    built     BIGINT NOT NULL,
    brief     BYTEA NOT NULL,
    progress  BYTEA NOT NULL,
    revision  BIGINT NOT NULL
);
CREATE INDEX operation_progress_revision ON operation_progress (revision);

CREATE TABLE controller_snapshots (
    operation BIGINT PRIMARY KEY,
    position  BIGINT NOT NULL,
    taken     BIGINT NOT NULL,
    data      BYTEA NOT NULL,
    revision  BIGINT NOT NULL
);
CREATE INDEX controller_snapshots_revision ON controller_snapshots (revision);

CREATE TABLE jobs (
    number       BIGINT PRIMARY KEY,
    operation    BIGINT NOT NULL,
    sequence     BIGINT NOT NULL,
    task         TEXT NOT NULL,
    cookie       BIGINT NOT NULL,
    type         TEXT NOT NULL,
    node         TEXT NOT NULL,
    tree         TEXT NOT NULL,
    state        TEXT NOT NULL,
    abort_reason TEXT NOT NULL,
    start_time   BIGINT NOT NULL,
    finish_time  BIGINT NOT NULL,
    stderr_size  BIGINT NOT NULL,
    resources    BYTEA NOT NULL,
    error        BYTEA NOT NULL,
    statistics   BYTEA NOT NULL,
    attributes   BYTEA NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE INDEX jobs_revision ON jobs (revision);
CREATE INDEX jobs_sequence ON jobs (operation, sequence);
CREATE INDEX jobs_live ON jobs (operation) WHERE finish_time = 0;
CREATE INDEX jobs_finish ON jobs (finish_time) WHERE finish_time <> 0;

CREATE TABLE volumes (
    tree     TEXT NOT NULL,
    pool     TEXT NOT NULL,
    updated  BIGINT NOT NULL,
    volume   BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (tree, pool)
) /* clustered */;
CREATE INDEX volumes_revision ON volumes (revision);

CREATE TABLE clocks (
    tree     TEXT NOT NULL,
    updated  BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (tree)
) /* clustered */;
CREATE INDEX clocks_revision ON clocks (revision);

CREATE TABLE nodes (
    address   TEXT NOT NULL,
    document  BYTEA NOT NULL,
    last_seen BIGINT NOT NULL,
    revision  BIGINT NOT NULL,
    PRIMARY KEY (address)
) /* clustered */;
CREATE INDEX nodes_revision ON nodes (revision);

CREATE TABLE users (
    name     TEXT NOT NULL,
    document BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (name)
) /* clustered */;
CREATE INDEX users_revision ON users (revision);

CREATE TABLE user_groups (
    name     TEXT NOT NULL,
    document BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (name)
) /* clustered */;
CREATE INDEX user_groups_revision ON user_groups (revision);

CREATE TABLE members (
    group_name TEXT NOT NULL,
    member     TEXT NOT NULL,
    revision   BIGINT NOT NULL,
    PRIMARY KEY (group_name, member)
) /* clustered */;
CREATE INDEX members_revision ON members (revision);

CREATE TABLE tokens (
    hash      TEXT NOT NULL,
    user_name TEXT NOT NULL,
    name      TEXT NOT NULL,
    created   BIGINT NOT NULL,
    last_used BIGINT NOT NULL,
    expires   BIGINT NOT NULL,
    revoked   BIGINT NOT NULL,
    revision  BIGINT NOT NULL,
    PRIMARY KEY (hash)
) /* clustered */;
CREATE INDEX tokens_revision ON tokens (revision);
CREATE INDEX tokens_user ON tokens (user_name);

CREATE TABLE acls (
    path     TEXT NOT NULL,
    document BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (path)
) /* clustered */;
CREATE INDEX acls_revision ON acls (revision);

CREATE TABLE mutations (
    id       TEXT NOT NULL,
    expires  BIGINT NOT NULL,
    response BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX mutations_revision ON mutations (revision);
CREATE INDEX mutations_expires ON mutations (expires);

CREATE TABLE job_outputs (
    job       BIGINT NOT NULL,
    kind      TEXT NOT NULL,
    operation BIGINT NOT NULL,
    written   BIGINT NOT NULL,
    data      BYTEA NOT NULL,
    PRIMARY KEY (job, kind)
);
CREATE INDEX job_outputs_operation ON job_outputs (operation);
CREATE INDEX job_outputs_written ON job_outputs (written);

CREATE TABLE events (
    id        BIGINT PRIMARY KEY,
    time      BIGINT NOT NULL,
    type      TEXT NOT NULL,
    operation BIGINT NOT NULL,
    job       BIGINT NOT NULL,
    tree      TEXT NOT NULL,
    pool      TEXT NOT NULL,
    node      TEXT NOT NULL,
    document  BYTEA NOT NULL
);
CREATE INDEX events_time ON events (time, id);
CREATE INDEX events_operation ON events (operation, id) WHERE operation <> 0;
CREATE INDEX events_job ON events (job, id) WHERE job <> 0;
CREATE INDEX events_pool ON events (pool, id) WHERE pool <> '';
CREATE INDEX events_node ON events (node, id) WHERE node <> '';
CREATE INDEX events_type ON events (type, id);

CREATE TABLE audit (
    id        BIGINT PRIMARY KEY,
    time      BIGINT NOT NULL,
    user_name TEXT NOT NULL,
    command   TEXT NOT NULL,
    object    TEXT NOT NULL,
    before    BYTEA NOT NULL,
    after     BYTEA NOT NULL,
    request   TEXT NOT NULL
);
CREATE INDEX audit_time ON audit (time, id);
CREATE INDEX audit_user ON audit (user_name, id);
CREATE INDEX audit_object ON audit (object, id);

CREATE TABLE history_series (
    number   BIGINT PRIMARY KEY,
    resource TEXT NOT NULL,
    name     TEXT NOT NULL
);

CREATE TABLE history_blocks (
    tree     TEXT NOT NULL,
    pool     TEXT NOT NULL,
    level    BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    PRIMARY KEY (tree, pool, level, start)
);
CREATE INDEX history_blocks_start ON history_blocks (level, start);
