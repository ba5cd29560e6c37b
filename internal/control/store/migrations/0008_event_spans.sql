-- The decision log has one entry for each value that the events of a commit have, instead of an entry
-- for each event in each of five indexes: most commits have many events with few values.

CREATE TABLE event_spans (
    kind  BIGINT NOT NULL, -- 1 operation, 2 jobs, 3 pool, 4 node
    key   TEXT NOT NULL,   -- the value; of jobs, their numbers divided by 64
    first BIGINT NOT NULL, -- all events of the commit with the value are between first and last
    last  BIGINT NOT NULL,
    PRIMARY KEY (kind, key, first)
) /* clustered */;
CREATE INDEX event_spans_last ON event_spans (last);

-- All events of a minute are between first and last.
CREATE TABLE event_minutes (
    minute BIGINT PRIMARY KEY,
    first  BIGINT NOT NULL,
    last   BIGINT NOT NULL
);

INSERT INTO event_spans SELECT 1, CAST(operation AS TEXT), min(id), max(id) FROM events WHERE operation <> 0 GROUP BY operation, id / 64;
INSERT INTO event_spans SELECT 2, CAST(job / 64 AS TEXT), min(id), max(id) FROM events WHERE job <> 0 GROUP BY job / 64, id / 64;
INSERT INTO event_spans SELECT 3, pool, min(id), max(id) FROM events WHERE pool <> '' GROUP BY pool, id / 64;
INSERT INTO event_spans SELECT 4, node, min(id), max(id) FROM events WHERE node <> '' GROUP BY node, id / 64;
INSERT INTO event_minutes SELECT time / 60000000, min(id), max(id) FROM events GROUP BY time / 60000000;

DROP INDEX events_time;
DROP INDEX events_operation;
DROP INDEX events_job;
DROP INDEX events_pool;
DROP INDEX events_node;
