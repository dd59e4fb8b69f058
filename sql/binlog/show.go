package binlog

import (
	"regexp"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Shown is a statement that tells about binary logs or replicas.
type Shown struct {
	Name   string
	Schema sql.Schema
	Needs  sql.PrivilegeType
	Right  string // its name
	Rows   func() []sql.Row
}

var (
	reStatus   = regexp.MustCompile(`(?is)^SHOW\s+(MASTER\s+STATUS|BINARY\s+LOG\s+STATUS|BINLOG\s+STATUS)$`)
	reLogs     = regexp.MustCompile(`(?is)^SHOW\s+(BINARY|MASTER)\s+LOGS$`)
	reReplicas = regexp.MustCompile(`(?is)^SHOW\s+(REPLICAS|SLAVE\s+HOSTS|REPLICA\s+HOSTS)$`)
)

func text(name string) *sql.Column { return &sql.Column{Name: name, Type: types.LongText} }

func number(name string) *sql.Column { return &sql.Column{Name: name, Type: types.Uint64} }

// Shows parses a statement; nil if it is none of these.
func (v *Env) Shows(q string, list *Replicas) *Shown {
	switch {
	case reStatus.MatchString(q):
		return &Shown{Name: "SHOW BINARY LOG STATUS", Needs: sql.PrivilegeType_ReplicationClient, Right: "REPLICATION CLIENT",
			Schema: sql.Schema{text("File"), number("Position"), text("Binlog_Do_DB"), text("Binlog_Ignore_DB"), text("Executed_Gtid_Set")},
			Rows: func() []sql.Row {
				now := v.Feed.DB.Clock()
				return []sql.Row{{File(now), uint64(startPos), "", "", v.Identity().MySQL(now)}}
			}}
	case reLogs.MatchString(q):
		return &Shown{Name: "SHOW BINARY LOGS", Needs: sql.PrivilegeType_ReplicationClient, Right: "REPLICATION CLIENT",
			Schema: sql.Schema{text("Log_name"), number("File_size"), text("Encrypted")},
			Rows:   func() []sql.Row { return []sql.Row{{File(v.Feed.DB.Clock()), uint64(startPos), "No"}} }}
	case reReplicas.MatchString(q):
		return &Shown{Name: "SHOW REPLICAS", Needs: sql.PrivilegeType_ReplicationSlave, Right: "REPLICATION SLAVE",
			Schema: sql.Schema{number("Server_Id"), text("Host"), number("Port"), number("Source_Id"), text("Replica_UUID")},
			Rows: func() (rows []sql.Row) {
				for _, r := range list.List() {
					rows = append(rows, sql.Row{uint64(r.ServerID), r.Host, uint64(r.Port), uint64(v.Identity().ServerID), r.UUID})
				}
				return rows
			}}
	}
	return nil
}

// SetVariables gives the engine's variables, which are global to the process, the values of a
// server that has a binary log.
func (v *Env) SetVariables() error {
	id := v.Identity()
	computed := func(name string, fn func(Position) string) sql.SystemVariable {
		return &sql.MysqlSystemVariable{Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Global),
			Type: types.NewSystemStringType(name), Default: "",
			ValueFunction: func() (any, error) { return fn(v.Feed.DB.Clock()), nil }}
	}
	fixed := func(name string, t sql.Type, value any) sql.SystemVariable {
		return &sql.MysqlSystemVariable{Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Global), Type: t, Default: value}
	}
	sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{
		computed("gtid_executed", id.MySQL),
		computed("gtid_binlog_pos", id.Maria), computed("gtid_current_pos", id.Maria), computed("gtid_binlog_state", id.Maria),
		fixed("gtid_slave_pos", types.NewSystemStringType("gtid_slave_pos"), ""),
		fixed("gtid_domain_id", types.NewSystemIntType("gtid_domain_id", 0, 1<<32-1, false), int64(0)),
		fixed("gtid_strict_mode", types.NewSystemBoolType("gtid_strict_mode"), int8(1)),
		fixed("gtid_mode", types.NewSystemEnumType("gtid_mode", "OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"), "ON"),
		fixed("enforce_gtid_consistency", types.NewSystemEnumType("enforce_gtid_consistency", "OFF", "ON", "WARN"), "ON"),
		fixed("log_bin", types.NewSystemBoolType("log_bin"), int8(1)),
		fixed("binlog_checksum", types.NewSystemEnumType("binlog_checksum", "NONE", "CRC32"), "CRC32"),
		fixed("binlog_row_image", types.NewSystemEnumType("binlog_row_image", "MINIMAL", "FULL", "NOBLOB"), "FULL"),
		fixed("binlog_row_metadata", types.NewSystemEnumType("binlog_row_metadata", "MINIMAL", "FULL"), "FULL"),
		fixed("server_uuid", types.NewSystemStringType("server_uuid"), id.UUID()),
	})
	return sql.SystemVariables.AssignValues(map[string]any{"server_id": id.ServerID})
}
