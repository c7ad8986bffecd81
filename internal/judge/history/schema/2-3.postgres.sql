-- What a fleet needs. An empty digest has a run that is recorded again filled in.
ALTER TABLE tare_runs
    ADD COLUMN recorded TIMESTAMPTZ NOT NULL DEFAULT now(),
    ADD COLUMN plan TEXT NOT NULL DEFAULT '',
    ADD COLUMN fleet_host TEXT NOT NULL DEFAULT '',
    ADD COLUMN fleet_machine TEXT NOT NULL DEFAULT '',
    ADD COLUMN part INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN parts INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN trials INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN head TEXT NOT NULL DEFAULT '',
    ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
UPDATE tare_runs SET recorded = created::timestamptz, digest = '';
CREATE TABLE tare_figures (
    run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    target TEXT NOT NULL, workload TEXT NOT NULL, metric TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,
    better TEXT NOT NULL, is_primary INTEGER NOT NULL, value DOUBLE PRECISION NOT NULL, low DOUBLE PRECISION NOT NULL,
    high DOUBLE PRECISION NOT NULL, blocks INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (run_id, target, workload, metric));
CREATE TABLE tare_facts (
    run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run_id, name));
CREATE TABLE tare_bundles (
    run_id TEXT PRIMARY KEY REFERENCES tare_runs (run_id) ON DELETE CASCADE,
    sha256 TEXT NOT NULL, size BIGINT NOT NULL, packed BYTEA NOT NULL);
-- They are compressed already.
ALTER TABLE tare_bundles ALTER COLUMN packed SET STORAGE EXTERNAL;
CREATE INDEX tare_runs_by_plan ON tare_runs (plan);
CREATE INDEX tare_runs_by_age ON tare_runs (recorded);

-- The views are what others may build on: columns are added, and none is taken away or means something else without a
-- word in the changelog.
CREATE VIEW tare_view_runs AS
SELECT r.run_id, r.created::timestamptz AS began, r.recorded, r.name, r.plan,
       COALESCE(NULLIF(r.fleet_host, ''), NULLIF(r.host, ''), 'unknown') AS host,
       COALESCE(NULLIF(r.fleet_machine, ''), r.machine) AS machine,
       NULLIF(r.kernel, '') AS kernel, r.version, r.build, r.scope, NULLIF(r.part, 0) AS part,
       NULLIF(r.parts, 0) AS parts, r.blocks, r.trials, r.seconds, r.finished <> 0 AS finished,
       r.pinned <> 0 AS pinned, b.size AS bundle_bytes, r.bundle AS bundle_path
  FROM tare_runs r LEFT JOIN tare_bundles b ON b.run_id = r.run_id;

CREATE VIEW tare_view_ratios AS
SELECT v.run_id, v.began, v.recorded, v.name, v.plan, v.host, v.machine, c.target, c.baseline, c.workload, c.metric,
       c.kind, c.unit, c.is_primary <> 0 AS is_primary, c.verdict,
       CASE WHEN u.usable THEN c.ratio END AS ratio,
       CASE WHEN u.usable THEN NULLIF(c.low, 0) END AS low,
       CASE WHEN u.usable THEN NULLIF(c.high, 0) END AS high,
       NULLIF(c.center, 0) AS value, NULLIF(c.baseline_center, 0) AS baseline_value, c.blocks
  FROM tare_cells c JOIN tare_view_runs v ON v.run_id = c.run_id
 CROSS JOIN LATERAL (SELECT c.ratio > 0 AND c.ratio < 'Infinity' AND c.verdict NOT IN ('WITHHELD', 'FAILED')) u (usable)
 WHERE c.target <> c.baseline;

CREATE VIEW tare_view_figures AS
SELECT v.run_id, v.began, v.recorded, v.name, v.plan, v.host, v.machine, f.target, f.workload, f.metric, f.kind, f.unit,
       f.better, f.is_primary <> 0 AS is_primary,
       CASE WHEN u.usable THEN f.value END AS value,
       CASE WHEN u.usable THEN NULLIF(f.low, 0) END AS low,
       CASE WHEN u.usable THEN NULLIF(f.high, 0) END AS high,
       f.blocks, NULLIF(f.why, '') AS why
  FROM tare_figures f JOIN tare_view_runs v ON v.run_id = f.run_id
 CROSS JOIN LATERAL (SELECT f.value > 0 AND f.value < 'Infinity' AND f.why = '') u (usable);

CREATE VIEW tare_view_latest AS
SELECT DISTINCT ON (plan, machine) *
  FROM tare_view_runs
 ORDER BY plan, machine, finished DESC, recorded DESC, run_id;

CREATE VIEW tare_view_cells AS
SELECT f.plan, f.name, f.target, f.workload, f.metric, f.kind, f.unit, f.better, f.is_primary,
       count(f.value) AS hosts,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY f.value) AS median,
       percentile_cont(0.1) WITHIN GROUP (ORDER BY f.value) AS p10,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY f.value) AS p90,
       min(f.value) AS least, max(f.value) AS most
  FROM tare_view_figures f JOIN tare_view_latest l ON l.run_id = f.run_id
 GROUP BY f.plan, f.name, f.target, f.workload, f.metric, f.kind, f.unit, f.better, f.is_primary;

CREATE VIEW tare_view_hosts AS
SELECT f.plan, f.name, f.target, f.workload, f.metric, f.kind, f.unit, f.better, f.is_primary, f.host, f.machine,
       f.run_id, f.began, f.value, f.low, f.high, m.hosts, m.median,
       CASE f.better WHEN 'higher' THEN m.median / f.value ELSE f.value / NULLIF(m.median, 0) END AS cost,
       f.blocks, f.why
  FROM tare_view_figures f
  JOIN tare_view_latest l ON l.run_id = f.run_id
  JOIN tare_view_cells m ON m.plan = f.plan AND m.name = f.name AND m.target = f.target AND m.workload = f.workload
   AND m.metric = f.metric AND m.kind = f.kind AND m.unit = f.unit AND m.better = f.better
   AND m.is_primary = f.is_primary;

CREATE VIEW tare_view_facts AS
SELECT l.plan, l.name, l.host, l.machine, l.run_id, t.name AS fact, t.value,
       count(*) OVER (PARTITION BY l.plan, t.name, t.value) AS hosts_with,
       count(*) OVER (PARTITION BY l.plan, t.name) AS hosts
  FROM tare_facts t JOIN tare_view_latest l ON l.run_id = t.run_id;

COMMENT ON VIEW tare_view_runs IS 'one row for each run';
COMMENT ON VIEW tare_view_ratios IS 'one row for each ratio of a run: a target against what it is compared with';
COMMENT ON VIEW tare_view_figures IS 'one row for each figure of a run: what work showed in one target';
COMMENT ON VIEW tare_view_latest IS 'the newest run of each plan on each machine; a finished one before others';
COMMENT ON VIEW tare_view_cells IS 'each figure across the hosts, of their newest runs of a plan';
COMMENT ON VIEW tare_view_hosts IS 'each host''s newest figure beside the middle of all hosts of the plan';
COMMENT ON VIEW tare_view_facts IS 'facts of each host''s newest run, and how many hosts share them';
COMMENT ON TABLE tare_bundles IS 'packed bundles; tare history fetch takes them out';
