-- Rows that are written for every job have as few indexes as their readers need.
-- Standbys do not follow jobs, progress and snapshots, so these have no revision.

DROP INDEX jobs_revision;
DROP INDEX jobs_live; -- running jobs have sequence 0
ALTER TABLE jobs DROP COLUMN revision;
DROP INDEX operation_progress_revision;
ALTER TABLE operation_progress DROP COLUMN revision;
DROP INDEX controller_snapshots_revision;
ALTER TABLE controller_snapshots DROP COLUMN revision;

-- Frequent types need no index: the newest events of the log have them.
DROP INDEX events_type;
CREATE INDEX events_type ON events (type, id) WHERE type NOT IN ('job_completed', 'job_started');
