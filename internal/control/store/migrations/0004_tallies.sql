-- The books of preemptions and usage: all lines of a kind, tree and period in one row.

CREATE TABLE ledger_tallies (
    kind     TEXT NOT NULL,
    tree     TEXT NOT NULL,
    level    BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    PRIMARY KEY (kind, tree, level, start)
) /* clustered */;
CREATE INDEX ledger_tallies_start ON ledger_tallies (level, start);
