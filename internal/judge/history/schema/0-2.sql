-- The tables as they were up to version 2, in SQLite and PostgreSQL alike.
CREATE TABLE tare_schema (version INTEGER NOT NULL);
CREATE TABLE tare_runs (
    run_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created TEXT NOT NULL, name TEXT NOT NULL, bundle TEXT NOT NULL,
    baseline TEXT NOT NULL, machine TEXT NOT NULL, host TEXT NOT NULL, kernel TEXT NOT NULL, version TEXT NOT NULL,
    build TEXT NOT NULL, scope TEXT NOT NULL, blocks INTEGER NOT NULL, seconds DOUBLE PRECISION NOT NULL,
    finished INTEGER NOT NULL);
CREATE TABLE tare_cells (
    run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    target TEXT NOT NULL, workload TEXT NOT NULL, metric TEXT NOT NULL, work TEXT NOT NULL, kind TEXT NOT NULL,
    unit TEXT NOT NULL, is_primary INTEGER NOT NULL, verdict TEXT NOT NULL, ratio DOUBLE PRECISION NOT NULL,
    low DOUBLE PRECISION NOT NULL, high DOUBLE PRECISION NOT NULL, center DOUBLE PRECISION NOT NULL,
    baseline_center DOUBLE PRECISION NOT NULL, blocks INTEGER NOT NULL, baseline TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, target, workload, metric));
CREATE INDEX tare_cells_by_name ON tare_cells (target, workload, metric);
