package server

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/zone"
)

// SET of system variables: who may, and which of them have an effect. All variables that a
// statement sets are judged before the first is set, as in MySQL.

// MySQL's error numbers of SET.
const (
	errNotSupported = 1235
	warnNoEffect    = 1618 // WARN_OPTION_IGNORED
)

// restricted are the session variables that take a privilege in MySQL 8.0, those of them that the
// engine knows.
var restricted = nameSet(`binlog_format binlog_row_image bulk_insert_buffer_size character_set_database
	character_set_filesystem collation_database debug_sync default_collation_for_utf8mb4 default_table_encryption
	explicit_defaults_for_timestamp gtid_next histogram_generation_max_mem_size immediate_server_version
	internal_tmp_mem_storage_engine original_server_version pseudo_slave_mode pseudo_thread_id rbr_exec_mode
	show_create_table_skip_secondary_engine sql_generate_invisible_primary_key sql_log_bin sql_log_off sql_require_primary_key`)

// effective are the variables that something here reads. All others are kept and shown, and a
// statement that changes one gets a warning.
var effective = nameSet(`activate_all_roles_on_login automatic_sp_privileges autocommit block_encryption_mode completion_type connect_timeout character_set_client character_set_connection
	character_set_database character_set_results character_set_server collation_connection collation_database
	collation_server cte_max_recursion_depth default_week_format div_precision_increment foreign_key_checks
	group_concat_max_len identity innodb_lock_wait_timeout interactive_timeout last_insert_id local_infile long_query_time max_allowed_packet max_connections max_execution_time max_sp_recursion_depth
	max_user_connections require_secure_transport wait_timeout regexp_buffer_size server_id
	show_external_procedures slow_query_log sql_mode sql_safe_updates sql_select_limit strict_mysql_compatibility timestamp time_zone transaction_isolation transaction_read_only
	tx_isolation validate_password.length validate_password.mixed_case_count validate_password.number_count
	validate_password.special_char_count`)

// promises are the variables without effect on which the safety of data, the meaning of what is
// written, or what is logged may rest: to change one is an error.
var promises = nameSet(`default_password_lifetime default_table_encryption event_scheduler
	binlog_encryption general_log general_log_file init_connect innodb_ft_enable_stopword insert_id log_output log_queries_not_using_indexes mandatory_roles
	min_examined_row_limit offline_mode partial_revokes password_history password_require_current
	password_reuse_interval profiling read_only require_row_format slow_query_log_file sql_generate_invisible_primary_key sql_require_primary_key ssl_ca ssl_capath
	ssl_cert ssl_cipher ssl_crl ssl_crlpath ssl_key super_read_only table_encryption_privilege_check
	tls_ciphersuites tls_version`)

func nameSet(names string) map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Fields(names) {
		out[n] = true
	}
	return out
}

// MaxConnections is the default of max_connections.
const MaxConnections = session.MaxConnections

// SetVariables sets global variables of this process.
func SetVariables(values map[string]any) error { return sql.SystemVariables.AssignValues(values) }

// checkSet judges all system variables of a SET before the engine sets the first.
func (b *builder) checkSet(ctx *sql.Context, n *plan.Set, row sql.Row) error {
	for _, e := range n.Exprs {
		f, ok := e.(*expression.SetField)
		if !ok {
			continue
		}
		v, ok := f.LeftChild.(*expression.SystemVar)
		if !ok {
			continue
		}
		if err := b.checkSetOf(ctx, v, f.RightChild, row); err != nil {
			return err
		}
		if strings.EqualFold(v.Name, zone.Variable) {
			if err := setZone(ctx, f, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// setZone judges a name of a time zone, and has it spelled as zones are.
func setZone(ctx *sql.Context, f *expression.SetField, row sql.Row) error {
	to, err := f.RightChild.Eval(ctx, row)
	if err != nil {
		return err
	}
	name, ok := to.(string)
	switch {
	case to == nil:
		return mysql.NewSQLError(1231, "42000", "Variable 'time_zone' can't be set to the value of 'NULL'")
	case !ok:
		return mysql.NewSQLError(1232, "42000", "Incorrect argument type to variable 'time_zone'")
	}
	if name, err = zone.Canonical(name); err == nil {
		f.RightChild = expression.NewLiteral(name, types.LongText)
	}
	return err
}

func (b *builder) checkSetOf(ctx *sql.Context, v *expression.SystemVar, to sql.Expression, row sql.Row) error {
	name := strings.ToLower(v.Name)
	def, _, ok := sql.SystemVariables.GetGlobal(name)
	if !ok {
		return nil // the engine words it
	}
	scope := sql.SystemVariableScope_Session
	if s, ok := v.Scope.(*sql.MysqlScope); ok {
		scope = s.Type
	}
	if err := session.CheckScope(def, scope); err != nil {
		return err
	}
	if err := b.maySet(ctx, name, scope); err != nil {
		return err
	}
	if scope == sql.SystemVariableScope_Persist || scope == sql.SystemVariableScope_PersistOnly {
		return mysql.NewSQLError(errNotSupported, "42000", "SET PERSIST is not supported: SET GLOBAL lasts until this "+
			"node ends, SET CLUSTER SETTING is kept for all nodes")
	}
	session.WarnOfModes(ctx, name, to, row)
	if own := ownVariable(name); own || effective[name] || !session.Changes(ctx, v, def, to, row) {
		return nil
	}
	if name == "event_scheduler" {
		return mysql.NewSQLError(errNotSupported, "42000", "the variable event_scheduler is one for all nodes: "+
			"SET CLUSTER SETTING sql.event_scheduler = false, or true")
	}
	if promises[name] {
		return mysql.NewSQLError(errNotSupported, "42000", "the variable %s has no effect here, and is not changed", name)
	}
	ctx.Session.Warn(&sql.Warning{Level: "Warning", Code: warnNoEffect,
		Message: fmt.Sprintf("the variable %s has no effect here: its value is kept and shown, and nothing else", name)})
	return nil
}

// maySet says whether the user may set a variable. SUPER has all dynamic privileges.
func (b *builder) maySet(ctx *sql.Context, name string, scope sql.MysqlSVScopeType) error {
	of := []string{rights.SystemAdmin}
	if scope == sql.SystemVariableScope_Session {
		if !restricted[name] {
			return nil
		}
		of = append(of, rights.SessionAdmin)
	}
	for _, p := range of {
		if b.base.Catalog.MySQLDb.UserHasPrivileges(ctx, sql.NewDynamicPrivilegedOperation(p)) {
			return nil
		}
	}
	return rights.ErrNeeds(append([]string{"SUPER"}, of...)...)
}

// ownVariable reports whether a variable is Godwit's own: all of these have an effect.
func ownVariable(name string) bool {
	return strings.Contains(name, "godwit") || strings.HasSuffix(name, "read_staleness") ||
		strings.HasSuffix(name, "_as_of") || name == "transaction_consistency"
}
