-- The books of guarantees: sums by pool and period, and what held at the last flush.

CREATE TABLE ledger_rows (
    tree     TEXT NOT NULL,
    pool     TEXT NOT NULL,
    level    BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    PRIMARY KEY (tree, pool, level, start)
) /* clustered */;
CREATE INDEX ledger_rows_start ON ledger_rows (level, start);
