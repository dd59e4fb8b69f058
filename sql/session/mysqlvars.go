package session

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// mysqlVariables are variables of MySQL 8.0 that the engine does not know, with MySQL's defaults.
// None has an effect here: clients, dumps and tools set and ask for them. A line has the name, the
// scope (global, session, or both), what the values are, and the default. Values are a bool, an int
// from and to which it goes, a double, a text, or words of an enumeration. "fixed" is of those that
// nobody can set.
const mysqlVariables = `
binlog_cache_size                        global  int:4096:18446744073709547520  32768
binlog_direct_non_transactional_updates  both    bool                           0
binlog_encryption                        global  bool                           0
binlog_error_action                      global  IGNORE_ERROR|ABORT_SERVER      ABORT_SERVER
binlog_group_commit_sync_delay           global  int:0:1000000                  0
binlog_group_commit_sync_no_delay_count  global  int:0:100000                   0
binlog_order_commits                     global  bool                           1
binlog_rows_query_log_events             both    bool                           0
binlog_stmt_cache_size                   global  int:4096:18446744073709547520  32768
binlog_transaction_dependency_tracking   global  COMMIT_ORDER|WRITESET|WRITESET_SESSION  COMMIT_ORDER
have_dynamic_loading                     global  fixed                          NO
have_geometry                            global  fixed                          YES
have_profiling                           global  fixed                          NO
have_query_cache                         global  fixed                          NO
have_rtree_keys                          global  fixed                          NO
have_symlink                             global  fixed                          DISABLED
innodb_adaptive_flushing                 global  bool                           1
innodb_adaptive_hash_index               global  bool                           1
innodb_autoextend_increment              global  int:1:1000                     64
innodb_buffer_pool_dump_at_shutdown      global  bool                           1
innodb_buffer_pool_dump_pct              global  int:1:100                      25
innodb_change_buffer_max_size            global  int:0:50                       25
innodb_change_buffering                  global  none|inserts|deletes|changes|purges|all  all
innodb_cmp_per_index_enabled             global  bool                           0
innodb_commit_concurrency                global  int:0:1000                     0
innodb_compression_level                 global  int:0:9                        6
innodb_concurrency_tickets               global  int:1:4294967295               5000
innodb_ddl_buffer_size                   session int:65536:4294967295           1048576
innodb_ddl_threads                       session int:1:64                       4
innodb_deadlock_detect                   global  bool                           1
innodb_default_row_format                global  REDUNDANT|COMPACT|DYNAMIC      DYNAMIC
innodb_disable_sort_file_cache           global  bool                           0
innodb_fast_shutdown                     global  int:0:2                        1
innodb_file_per_table                    global  bool                           1
innodb_fill_factor                       global  int:10:100                     100
innodb_flush_log_at_timeout              global  int:1:2700                     1
innodb_flush_log_at_trx_commit           global  int:0:2                        1
innodb_flush_neighbors                   global  int:0:2                        0
innodb_ft_enable_stopword                both    bool                           1
innodb_ft_num_word_optimize              global  int:1000:10000                 2000
innodb_ft_result_cache_limit             global  int:1000000:4294967295         2000000000
innodb_io_capacity                       global  int:100:18446744073709551615   200
innodb_io_capacity_max                   global  int:100:18446744073709551615   2000
innodb_log_buffer_size                   global  int:262144:4294967295          16777216
innodb_lru_scan_depth                    global  int:100:18446744073709551615   1024
innodb_max_dirty_pages_pct               global  double                         90
innodb_max_dirty_pages_pct_lwm           global  double                         10
innodb_max_purge_lag                     global  int:0:4294967295               0
innodb_old_blocks_pct                    global  int:5:95                       37
innodb_old_blocks_time                   global  int:0:4294967295               1000
innodb_online_alter_log_max_size         global  int:65536:18446744073709551615 134217728
innodb_optimize_fulltext_only            global  bool                           0
innodb_parallel_read_threads             session int:1:256                      4
innodb_print_all_deadlocks               global  bool                           0
innodb_purge_batch_size                  global  int:1:5000                     300
innodb_random_read_ahead                 global  bool                           0
innodb_read_ahead_threshold              global  int:0:64                       56
innodb_redo_log_capacity                 global  int:8388608:137438953472       104857600
innodb_rollback_on_timeout               global  fixed                          OFF
innodb_spin_wait_delay                   global  int:0:1000                     6
innodb_stats_include_delete_marked       global  bool                           0
innodb_stats_method                      global  nulls_equal|nulls_unequal|nulls_ignored  nulls_equal
innodb_stats_on_metadata                 global  bool                           0
innodb_stats_persistent                  global  bool                           1
innodb_stats_persistent_sample_pages     global  int:1:18446744073709551615     20
innodb_stats_transient_sample_pages      global  int:1:18446744073709551615     8
innodb_status_output                     global  bool                           0
innodb_status_output_locks               global  bool                           0
innodb_strict_mode                       both    bool                           1
innodb_sync_spin_loops                   global  int:0:4294967295               30
innodb_table_locks                       both    bool                           1
innodb_thread_concurrency                global  int:0:1000                     0
innodb_thread_sleep_delay                global  int:0:1000000                  10000
innodb_tmpdir                            both    text
log_bin_trust_function_creators          global  bool                           0
master_verify_checksum                   global  bool                           0
max_binlog_cache_size                    global  int:4096:18446744073709547520  18446744073709547520
max_binlog_stmt_cache_size               global  int:4096:18446744073709547520  18446744073709547520
max_relay_log_size                       global  int:0:1073741824               0
profiling                                both    bool                           0
profiling_history_size                   both    int:0:100                      15
query_alloc_block_size                   both    int:1024:4294967295            8192
query_prealloc_size                      both    int:8192:18446744073709551615  8192
range_alloc_block_size                   both    int:4096:18446744073709547520  4096
relay_log_purge                          global  bool                           1
replica_net_timeout                      global  int:1:31536000                 60
show_gipk_in_create_table_and_information_schema  both  bool                     1
slave_net_timeout                        global  int:1:31536000                 60
source_verify_checksum                   global  bool                           0
sql_generate_invisible_primary_key       both    bool                           0
sync_binlog                              global  int:0:4294967295               1
sync_relay_log                           global  int:0:4294967295               10000
thread_stack                             global  fixed                          1048576
transaction_alloc_block_size             both    int:1024:131072                8192
xa_detach_on_prepare                     both    bool                           1
`

// addMySQLVariables adds those that the engine does not have by itself.
func addMySQLVariables() {
	var all []sql.SystemVariable
	for _, line := range strings.Split(strings.TrimSpace(mysqlVariables), "\n") {
		f := append(strings.Fields(line), "")
		if _, _, known := sql.SystemVariables.GetGlobal(f[0]); known {
			continue
		}
		v := &sql.MysqlSystemVariable{Name: f[0], Dynamic: f[2] != "fixed", Scope: sql.GetMysqlScope(scopes[f[1]])}
		v.Type, v.Default = valuesOf(f[0], f[2], f[3])
		all = append(all, v)
	}
	sql.SystemVariables.AddSystemVariables(all)
}

var scopes = map[string]sql.MysqlSVScopeType{"global": sql.SystemVariableScope_Global,
	"session": sql.SystemVariableScope_Session, "both": sql.SystemVariableScope_Both}

// valuesOf is the type of a variable, and its default as a value of that.
func valuesOf(name, values, def string) (sql.Type, any) {
	switch kind, bounds, _ := strings.Cut(values, ":"); kind {
	case "bool":
		return types.NewSystemBoolType(name), int8(def[0] - '0')
	case "double":
		f, _ := strconv.ParseFloat(def, 64)
		return types.NewSystemDoubleType(name, 0, 100), f
	case "int":
		from, to, _ := strings.Cut(bounds, ":")
		least, _ := strconv.ParseUint(from, 10, 64)
		most, _ := strconv.ParseUint(to, 10, 64)
		n, _ := strconv.ParseUint(def, 10, 64)
		return types.NewSystemUintType(name, least, most), n
	case "text", "fixed":
		return types.NewSystemStringType(name), def
	}
	return types.NewSystemEnumType(name, strings.Split(values, "|")...), def
}
