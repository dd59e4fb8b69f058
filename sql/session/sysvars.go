package session

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/expr/crypt"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

var sysVarsOnce sync.Once

// DefaultSQLMode is MySQL 8's. The engine's own lacks what refuses zero dates and divisions by 0.
const DefaultSQLMode = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE," +
	"ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// DefaultCollation is MySQL 8's, of clients and databases that name none. The engine's own is
// utf8mb4_0900_bin.
const DefaultCollation = sql.Collation_utf8mb4_0900_ai_ci

// modes are those of sql_mode, in the order in which MySQL shows them.
var modes = []string{
	"REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ONLY_FULL_GROUP_BY", "NO_UNSIGNED_SUBTRACTION",
	"NO_DIR_IN_CREATE", "ANSI", "NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES",
	"NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "TRADITIONAL",
	"NO_AUTO_CREATE_USER", "HIGH_NOT_PRECEDENCE", "NO_ENGINE_SUBSTITUTION", "PAD_CHAR_TO_FULL_LENGTH",
	"TIME_TRUNCATE_FRACTIONAL",
}

// InitSystemVariables adds Godwit's variables to the engine's, which are global to the process.
func InitSystemVariables() {
	hideUnloaded()
	sysVarsOnce.Do(func() {
		addMySQLVariables()
		mendScopes()
		session := func(name string, t sql.Type, def any) sql.SystemVariable {
			return &sql.MysqlSystemVariable{
				Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session), Type: t, Default: def, Dynamic: false,
			}
		}
		both := func(name string) sql.SystemVariable {
			return &sql.MysqlSystemVariable{
				Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				Type: types.NewSystemStringType(name), Default: "", Dynamic: true,
			}
		}
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{
			session("godwit_region", types.NewSystemStringType("godwit_region"), ""),
			session("godwit_node", types.NewSystemIntType("godwit_node", 0, 1<<32, false), int64(0)),
			&sql.MysqlSystemVariable{Name: ForwardVariable, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				Type:    types.NewSystemBoolType(ForwardVariable),
				Default: int8(1), Dynamic: true},
			&sql.MysqlSystemVariable{Name: OwnEngineVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				Type: types.NewSystemBoolType(OwnEngineVar), Default: int8(1), Dynamic: true},
			&sql.MysqlSystemVariable{Name: PartsVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				Type: types.NewSystemBoolType(PartsVar), Default: int8(1), Dynamic: true},
			&sql.MysqlSystemVariable{Name: workersVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				Type: types.NewSystemIntType(workersVar, 0, mostWorkers, false), Default: int64(0), Dynamic: true},
			&sql.MysqlSystemVariable{Name: LiteralsVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Global),
				Type: types.NewSystemBoolType(LiteralsVar), Default: int8(0), Dynamic: true},
			both(StalenessVar), both(oldStalenessVar), both(tokenVar), both(NextAsOfVar), both(StartAsOfVar),
			session("last_statement_wan_rtts", types.NewSystemDoubleType("last_statement_wan_rtts", 0, 1e18), float64(0)),
			session("last_statement_rows_moved", types.NewSystemIntType("last_statement_rows_moved", 0, 1<<62, false), int64(0)),
			session("last_statement_wan_bytes", types.NewSystemIntType("last_statement_wan_bytes", 0, 1<<62, false), int64(0)),
		})
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{
			Name: ConsistencyVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true, Default: "CLUSTER",
			Type: types.NewSystemEnumType(ConsistencyVar, "CLUSTER", "STRICT", "RELAY"),
		}})
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{
			Name: switchesVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true, Default: switchDefaults,
			Type: switches{types.NewSystemStringType(switchesVar)},
		}})
		for _, name := range []string{warningCountVar, errorCountVar} {
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{session(name, types.NewSystemUintType(name, 0, math.MaxUint32), uint64(0))})
		}
		for _, name := range []string{insertIDVar, identityVar} {
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{
				Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session), Dynamic: true, Default: int64(0),
				Type: types.NewSystemIntType(name, 0, math.MaxInt64, false),
			}})
		}
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{
			Name: encryptionVar, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true, Default: crypt.Default,
			Type: types.NewSystemEnumType(encryptionVar, crypt.Modes()...),
		}})
		for _, name := range []string{IsolationVar, OldIsolationVar} {
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{
				Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true, Default: "SERIALIZABLE",
				Type: types.NewSystemEnumType(name, "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"),
			}})
		}
		if v, _, ok := sql.SystemVariables.GetGlobal(sql.SqlModeSessionVar); ok {
			mode := *v.(*sql.MysqlSystemVariable)
			mode.Default, mode.Type = DefaultSQLMode, types.NewSystemSetType(mode.Name, sql.Collation_utf8mb4_0900_ai_ci, modes...)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&mode})
		}
		for _, name := range []string{"collation_connection", "collation_database", "collation_server"} {
			if v, _, ok := sql.SystemVariables.GetGlobal(name); ok {
				collation := *v.(*sql.MysqlSystemVariable)
				collation.Default = DefaultCollation.Name()
				sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&collation})
			}
		}
		// names of tables keep their case, and are found whatever it is
		if v, _, ok := sql.SystemVariables.GetGlobal("lower_case_table_names"); ok {
			names := *v.(*sql.MysqlSystemVariable)
			names.Default = int64(2)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&names})
		}
		if v, _, ok := sql.SystemVariables.GetGlobal(zone.MomentVariable); ok {
			moment := *v.(*sql.MysqlSystemVariable)
			moment.Default, moment.Type = float64(0), types.NewSystemDoubleType(moment.Name, 0, math.MaxInt32)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&moment})
		}
		if v, _, ok := sql.SystemVariables.GetGlobal(lockWaitVar); ok {
			wait := *v.(*sql.MysqlSystemVariable)
			wait.Default, wait.Type = int64(lockWait/time.Second), types.NewSystemIntType(wait.Name, 1, 1<<30, false)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&wait})
		}
		if v, _, ok := sql.SystemVariables.GetGlobal("max_allowed_packet"); ok {
			packet := *v.(*sql.MysqlSystemVariable)
			packet.Default = int64(MaxPacket)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&packet})
		}
		_ = sql.SystemVariables.AssignValues(map[string]any{"activate_all_roles_on_login": int8(1), "version_comment": "Godwit geo-distributed SQL", FilesVar: NoFiles,
			"max_connections": int64(MaxConnections)})
		for name := range sql.SystemVariables.GetAllGlobalVariables() {
			if v, _, ok := sql.SystemVariables.GetGlobal(name); ok && v.IsGlobalOnly() {
				globalOnly[strings.ToLower(name)] = true
			}
		}
	})
}

// globalOnly are the variables of which sessions have no values of their own. The engine gives each
// session copies, which do not follow SET GLOBAL.
var globalOnly = map[string]bool{}

// lockWait is the default of innodb_lock_wait_timeout. InnoDB's is 50 s.
const lockWait = 10 * time.Second

// lockTimeout is how long the session's transactions wait for a lock; 0: as the store has it.
func (s *Session) lockTimeout() time.Duration {
	if w := time.Duration(s.lockWait) * time.Second; w != lockWait {
		return w
	}
	return 0
}

// MaxPacket is the default of max_allowed_packet, in bytes, as in MySQL 8.0.
const MaxPacket = 64 << 20

// MaxConnections is the default of max_connections. MySQL's is 151.
const MaxConnections = 2000

// InitVariables gives a new session its values.
func (s *Session) InitVariables() {
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	_ = s.InitSessionVariable(ctx, "godwit_region", s.env.DB.Topology().RegionName(s.Region()))
	_ = s.InitSessionVariable(ctx, "godwit_node", int64(s.env.DB.Node()))
	_ = s.setIsolation(ctx, IsolationVar)
	s.readConsistency(ctx)
	s.readForward(ctx)
	s.readTimes(ctx)
	s.readTexts(ctx)
	s.readCharsets(ctx)
	s.readEngine(ctx)
	s.readWorkers(ctx)
	s.readCompletion(ctx)
	if v, err := s.BaseSession.GetSessionVariable(ctx, StalenessVar); err == nil {
		s.Staleness, _ = parseStaleness(v) // the server's default
	}
}

// The variables of a session's times.
const (
	waitTimeoutVar = "wait_timeout"
	maxTimeVar     = "max_execution_time"
	longQueryVar   = "long_query_time"
	lockWaitVar    = "innodb_lock_wait_timeout"
	sqlModeVar     = "sql_mode"
)

// The variables of statistics and of the slow log.
const (
	// SlowLogVar says whether slow statements are logged.
	SlowLogVar = "slow_query_log"
	// LiteralsVar says whether logs and samples show the literals of statements.
	LiteralsVar = "godwit_statement_literals"
)

// ReadOnlyVar says whether the transactions of a session are READ ONLY unless they say otherwise.
const ReadOnlyVar = "transaction_read_only"

func (s *Session) readTimes(ctx *sql.Context) {
	for name, to := range map[string]*int64{waitTimeoutVar: &s.WaitTimeout, maxTimeVar: &s.MaxTime, ReadOnlyVar: &s.readOnly,
		lockWaitVar: &s.lockWait} {
		if v, err := s.BaseSession.GetSessionVariable(ctx, name); err == nil {
			*to, _ = schema.ToInt64(v)
		}
	}
	if v, err := s.BaseSession.GetSessionVariable(ctx, longQueryVar); err == nil {
		seconds, _ := v.(float64)
		s.LongQuery = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
	}
}

// readTexts notes how the texts of statements are to be read.
func (s *Session) readTexts(ctx *sql.Context) {
	if v, err := s.BaseSession.GetSessionVariable(ctx, sqlModeVar); err == nil {
		text, _ := v.(string)
		mode := sql.NewSqlModeFromString(text)
		s.ansiQuotes, s.noEscapes = mode.AnsiQuotes(), mode.ModeEnabled("no_backslash_escapes")
		s.truncates = mode.ModeEnabled("time_truncate_fractional")
	}
}

// TextModes says how texts are to be read: whether what stands in double quotes is a name, and
// whether a backslash in a literal is one.
func (s *Session) TextModes() (ansiQuotes, noEscapes bool) { return s.ansiQuotes, s.noEscapes }

// Truncates reports whether digits of a second that a column does not have are cut, not rounded.
func (s *Session) Truncates() bool { return s.truncates }

// NoteCost keeps the cost of a statement for the session's variables.
func (s *Session) NoteCost(c StatementCost) { s.LastCost = c.Plus(s.PacketCost) }

// encryptionVar says how AES_ENCRYPT and AES_DECRYPT work.
const encryptionVar = "block_encryption_mode"

const costPrefix = "last_statement_"

// GetSessionVariable implements sql.Session. The variables of the last statement's
// cost are not stored: the engine lets a session variable be initialized only once.
func (s *Session) GetSessionVariable(ctx *sql.Context, name string) (any, error) {
	if name == sql.AutoCommitSessionVar { // every statement asks for it
		return s.BaseSession.GetSessionVariable(ctx, name)
	}
	if len(name) > len(costPrefix) && strings.EqualFold(name[:len(costPrefix)], costPrefix) {
		switch strings.ToLower(name[len(costPrefix):]) {
		case "wan_rtts":
			return float64(s.LastCost.Hops) / 2, nil
		case "wan_bytes":
			return s.LastCost.Bytes, nil
		case "rows_moved":
			return s.LastCost.Moves, nil
		}
	}
	switch lower := strings.ToLower(name); {
	case lower == tokenVar:
		return strconv.FormatUint(uint64(s.token()), 10), nil
	case lower == oldStalenessVar:
		name = StalenessVar
	case lower == warningCountVar || lower == errorCountVar:
		return uint64(len(s.Diagnostics(lower == errorCountVar))), nil
	case lower == insertIDVar || lower == identityVar:
		return s.GetLastQueryInfo().LastInsertId.Load(), nil
	case lower == "group_concat_max_len":
		v, err := s.BaseSession.GetSessionVariable(ctx, name)
		if n, ok := v.(uint64); ok && n > math.MaxInt64 {
			v = uint64(math.MaxInt64) // the engine takes more for a negative length, and panics
		}
		return v, err
	case globalOnly[lower]:
		if _, v, ok := sql.SystemVariables.GetGlobal(lower); ok {
			return v, nil
		}
	}
	if strings.EqualFold(name, OldIsolationVar) {
		name = IsolationVar
	}
	if len(name) > 5 && strings.EqualFold(name[:5], "gtid_") { // some are computed: sessions keep no copies
		if v, value, ok := sql.SystemVariables.GetGlobal(name); ok && v.IsReadOnly() {
			return value, nil
		}
	}
	return s.BaseSession.GetSessionVariable(ctx, name)
}

// GetAllSessionVariables implements sql.Session. SHOW VARIABLES asks.
func (s *Session) GetAllSessionVariables() map[string]any {
	all := s.BaseSession.GetAllSessionVariables()
	for name := range globalOnly {
		if _, v, ok := sql.SystemVariables.GetGlobal(name); ok {
			all[name] = v
		}
	}
	all[warningCountVar], all[errorCountVar] = uint64(len(s.Diagnostics(false))), uint64(len(s.Diagnostics(true)))
	return all
}

// With this value, MySQL's for the same, statements neither read nor write files of the server.
// (The engine's default is to allow all.)
const (
	FilesVar = "secure_file_priv"
	NoFiles  = "NULL"
)
