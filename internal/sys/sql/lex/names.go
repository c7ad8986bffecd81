package lex

import "sync"

// feature is the effect of a function, a table or a special name on a statement that has it.
type feature struct {
	call     bool   // only with ( after it
	effect   string // why it is no mere reading
	volatile string // why its result differs from server to server
}

// group has the names of a dialect that mean the same.
type group struct {
	Dialect
	feature
	names []string
}

// The reasons, so that reports can count by them.
const (
	effectLock     = "takes a lock by name"
	effectWait     = "waits"
	effectLoad     = "keeps the server busy on purpose"
	effectFile     = "touches files of the server"
	effectSequence = "advances a sequence"
	effectObject   = "changes large objects"
	effectRemote   = "asks another server"
	effectAdmin    = "administers the server"
	effectRuns     = "runs a statement that a function is given"
	effectSession  = "changes a setting"
	effectMessage  = "sends a message to other sessions"
	effectProgram  = "runs a program"
	effectRoutine  = "is carried out by a routine" // no effect; see Verdict.Routine

	volatileTime    = "the time"
	volatileRandom  = "a random value"
	volatileSession = "the state of the session"
	volatileUser    = "the user"
	volatileServer  = "the state of the server"
	volatileCatalog = "information_schema"
)

// groups are those of names that are known as a whole.
var groups = []group{
	{MySQL, feature{true, effectLock, volatileSession}, []string{"get_lock", "release_lock", "release_all_locks"}},
	{MySQL, feature{true, "", volatileSession}, []string{"is_free_lock", "is_used_lock"}},
	{MySQL, feature{true, effectRoutine, ""}, []string{"name_const"}},
	{MySQL, feature{true, effectWait, ""}, []string{"sleep", "master_pos_wait", "source_pos_wait", "master_gtid_wait",
		"wait_for_executed_gtid_set", "wait_until_sql_thread_after_gtids"}},
	{MySQL, feature{true, effectLoad, ""}, []string{"benchmark"}},
	{MySQL, feature{true, effectFile, ""}, []string{"load_file"}},
	{MySQL, feature{true, effectProgram, ""}, []string{"sys_exec", "sys_eval", "sys_set"}},
	{MySQL, feature{true, effectSequence, volatileSession}, []string{"nextval", "setval"}},
	{MySQL, feature{true, "", volatileSession}, []string{"lastval", "last_insert_id", "found_rows", "row_count",
		"connection_id", "ps_current_thread_id"}},
	{MySQL, feature{true, "", volatileTime}, []string{"now", "curdate", "curtime", "sysdate", "unix_timestamp"}},
	{MySQL, feature{false, "", volatileTime}, []string{"current_timestamp", "current_date",
		"current_time", "localtime", "localtimestamp", "utc_date", "utc_time", "utc_timestamp"}},
	{MySQL, feature{true, "", volatileRandom}, []string{"rand", "uuid", "uuid_short", "uuid_v4", "uuid_v7", "sys_guid",
		"random_bytes"}},
	{MySQL, feature{true, "", volatileUser}, []string{"user", "session_user", "system_user", "current_role"}},
	{MySQL, feature{false, "", volatileUser}, []string{"current_user"}},
	{MySQL, feature{true, "", volatileServer}, []string{"version"}},
	{MySQL, feature{false, "", volatileCatalog}, []string{"information_schema"}},
	{MySQL, feature{false, "", volatileServer}, []string{"performance_schema"}},

	{PostgreSQL, feature{true, effectSequence, volatileSession}, []string{"nextval", "setval"}},
	{PostgreSQL, feature{true, "", volatileSession}, []string{"currval", "lastval", "pg_backend_pid",
		"inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port",
		"current_setting", "txid_current_snapshot",
		"pg_current_snapshot", "txid_current_if_assigned", "pg_current_xact_id_if_assigned", "pg_my_temp_schema",
		"pg_export_snapshot"}},
	{PostgreSQL, feature{true, "takes a transaction number", volatileSession}, []string{"txid_current",
		"pg_current_xact_id"}},
	{PostgreSQL, feature{true, effectSession, ""}, []string{"set_config", "setseed"}},
	{PostgreSQL, feature{true, effectMessage, ""}, []string{"pg_notify"}},
	{PostgreSQL, feature{true, effectAdmin, ""}, []string{"pg_terminate_backend", "pg_cancel_backend",
		"pg_reload_conf", "pg_rotate_logfile", "pg_switch_wal", "pg_switch_xlog", "pg_start_backup", "pg_stop_backup",
		"pg_backup_start", "pg_backup_stop", "pg_promote", "pg_import_system_collations", "pg_prewarm",
		"autoprewarm_start_worker", "pg_log_backend_memory_contexts", "pg_copy_physical_replication_slot",
		"pg_copy_logical_replication_slot", "pg_replication_slot_advance", "pg_extension_config_dump",
		"gin_clean_pending_list", "brin_summarize_new_values", "brin_summarize_range", "brin_desummarize_range",
		"pg_truncate_visibility_map", "pg_logdir_ls"}},
	{PostgreSQL, feature{true, effectFile, ""}, []string{"pg_read_file", "pg_read_binary_file", "pg_stat_file"}},
	{PostgreSQL, feature{true, effectObject, ""}, []string{"loread", "lowrite"}},
	{PostgreSQL, feature{true, effectRuns, ""}, []string{"query_to_xml", "query_to_xmlschema",
		"query_to_xml_and_xmlschema", "cursor_to_xml", "ts_stat", "ts_rewrite", "crosstab",
		"crosstab2", "crosstab3", "crosstab4", "connectby",
		"xpath_table"}},
	{PostgreSQL, feature{true, "", volatileTime}, []string{"now", "statement_timestamp", "transaction_timestamp",
		"clock_timestamp", "timeofday", "age"}},
	{PostgreSQL, feature{false, "", volatileTime}, []string{"current_timestamp", "current_date",
		"current_time", "localtime", "localtimestamp"}},
	{PostgreSQL, feature{true, "", volatileRandom}, []string{"random", "random_normal", "gen_random_uuid",
		"gen_random_bytes", "gen_salt", "uuidv4", "uuidv7"}},
	{PostgreSQL, feature{false, "", volatileUser}, []string{"current_user", "session_user",
		"current_role", "system_user"}},
	{PostgreSQL, feature{true, "", volatileServer}, []string{"version", "pg_postmaster_start_time", "pg_conf_load_time",
		"pg_is_in_recovery", "pg_database_size", "pg_relation_size", "pg_table_size", "pg_indexes_size",
		"pg_total_relation_size", "pg_size_bytes", "pg_tablespace_size"}},
	{PostgreSQL, feature{false, "", volatileServer}, []string{"pg_locks", "pg_settings", "pg_cursors",
		"pg_prepared_statements", "pg_prepared_xacts", "pg_replication_slots", "pg_file_settings"}},
	{PostgreSQL, feature{false, "", volatileCatalog}, []string{"information_schema"}},
	{PostgreSQL, feature{false, "", "where a row is stored"}, []string{"ctid", "xmin", "xmax", "cmin", "cmax"}},
}

// names are the groups' by dialect. They are put together when they are first asked for: the agent, which only splits
// statements, does without them.
func names() *[2]map[string]feature {
	once.Do(func() { known = namesOf(groups) })
	return &known
}

var (
	once  sync.Once
	known [2]map[string]feature
)

func namesOf(groups []group) (m [2]map[string]feature) {
	m[MySQL], m[PostgreSQL] = map[string]feature{}, map[string]feature{}
	for _, g := range groups {
		for _, n := range g.names {
			m[g.Dialect][n] = g.feature
		}
	}
	return m
}

// prefixes are those of families of names, asked for where a name is not known as a whole.
var prefixes = []group{
	{PostgreSQL, feature{true, effectWait, ""}, []string{"pg_sleep"}},
	{PostgreSQL, feature{true, effectLock, ""}, []string{"pg_advisory_", "pg_try_advisory_"}},
	{PostgreSQL, feature{true, effectRemote, ""}, []string{"dblink", "postgres_fdw_"}},
	{PostgreSQL, feature{true, effectObject, ""}, []string{"lo_"}},
	{PostgreSQL, feature{true, effectFile, ""}, []string{"pg_file_", "pg_ls_", "pg_read_"}},
	{PostgreSQL, feature{true, effectAdmin, ""}, []string{"pg_create_", "pg_drop_", "pg_logical_",
		"pg_replication_origin_", "pg_stat_reset", "pg_stat_statements_reset", "pg_wal_replay_", "pg_xlog_replay_",
		"pg_sync_"}},
	{PostgreSQL, feature{true, effectRuns, ""}, []string{"table_to_xml", "schema_to_xml", "database_to_xml"}},
	{PostgreSQL, feature{true, "", volatileRandom}, []string{"uuid_generate_"}},
	{PostgreSQL, feature{false, "", volatileServer}, []string{"pg_stat_", "pg_statio_", "pg_last_"}},
}

// lookup returns the feature of a name in lower case.
func lookup(word []byte, d Dialect) (feature, bool) {
	if f, ok := names()[d][string(word)]; ok {
		return f, true
	}
	if d == PostgreSQL && len(word) > 3 {
		for i := range prefixes {
			for _, p := range prefixes[i].names {
				if word[0] == p[0] && hasPrefix(word, p) {
					return prefixes[i].feature, true
				}
			}
		}
	}
	return feature{}, false
}
