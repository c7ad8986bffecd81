-- What a fleet needs. An empty digest has a run that is recorded again filled in.
ALTER TABLE tare_runs ADD COLUMN recorded TEXT NOT NULL DEFAULT '';
ALTER TABLE tare_runs ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE tare_runs ADD COLUMN fleet_host TEXT NOT NULL DEFAULT '';
ALTER TABLE tare_runs ADD COLUMN fleet_machine TEXT NOT NULL DEFAULT '';
ALTER TABLE tare_runs ADD COLUMN part INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tare_runs ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tare_runs ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tare_runs ADD COLUMN head TEXT NOT NULL DEFAULT '';
ALTER TABLE tare_runs ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
UPDATE tare_runs SET recorded = created, digest = '';
CREATE TABLE tare_figures (
    run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    target TEXT NOT NULL, workload TEXT NOT NULL, metric TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,
    better TEXT NOT NULL, is_primary INTEGER NOT NULL, value DOUBLE PRECISION NOT NULL, low DOUBLE PRECISION NOT NULL,
    high DOUBLE PRECISION NOT NULL, blocks INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (run_id, target, workload, metric));
CREATE TABLE tare_facts (
    run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run_id, name));
