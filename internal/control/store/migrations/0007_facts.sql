-- The log of which the books of guarantees are the integral: all changes between two flushes in one row.

CREATE TABLE ledger_facts (
    epoch    BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    start    BIGINT NOT NULL,
    finish   BIGINT NOT NULL,
    gap      BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    PRIMARY KEY (epoch, number)
) /* clustered */;
CREATE INDEX ledger_facts_finish ON ledger_facts (finish);
