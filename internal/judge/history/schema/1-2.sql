-- An environment was compared with its run's baseline. A mount may have been compared with its environment: its
-- baseline stays unknown. Recording a run again tells it, which it does where the digest differs.
ALTER TABLE tare_cells ADD COLUMN baseline TEXT NOT NULL DEFAULT '';
UPDATE tare_cells SET baseline = (SELECT r.baseline FROM tare_runs r WHERE r.run_id = tare_cells.run_id)
 WHERE target NOT LIKE '%:%';
UPDATE tare_runs SET digest = '';
