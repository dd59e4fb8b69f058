package server

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/rowexec"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/audited"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/binlog"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/bulk"
	"github.com/godwitdb/godwit/sql/changefeed"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/ddl/like"
	"github.com/godwitdb/godwit/sql/events"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/infoschema"
	"github.com/godwitdb/godwit/sql/kill"
	"github.com/godwitdb/godwit/sql/lent"
	"github.com/godwitdb/godwit/sql/named"
	"github.com/godwitdb/godwit/sql/oneshot"
	"github.com/godwitdb/godwit/sql/perfschema"
	"github.com/godwitdb/godwit/sql/prefetch"
	selects "github.com/godwitdb/godwit/sql/query"
	"github.com/godwitdb/godwit/sql/regionkey"
	"github.com/godwitdb/godwit/sql/replica"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/rules"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/statements"
	"github.com/godwitdb/godwit/sql/stored"
	"github.com/godwitdb/godwit/sql/sysschema"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/tally"
	"github.com/godwitdb/godwit/sql/users"
)

// gateway is what all sessions of one node share.
type gateway struct {
	*ddl.Env
	cluster  Cluster
	engine   *sqle.Engine
	sessions sync.Map // connection id -> *Session
	// presences are those of clients, by connection id; not of forwarded statements.
	presences sync.Map
	draining  atomic.Bool // the server ends
	onStmt    func(kind string, d time.Duration, hops int, err error)
	onTxn     func(session.TxnCost)
	fwd       Forwarder
	routes    routes

	fast     *fast.Runner
	whole    *oneshot.Runner
	query    *selects.Runner
	prefetch *prefetch.Planner

	users *users.Store

	uuids regionkey.Maker

	logins  *logins
	backups *backup.Env
	// binlog is told to replicas.
	binlog   *binlog.Env
	replicas binlog.Replicas
	feeds    *changefeed.Env
	bulk     *bulk.Env
	replica  *replica.Env
	events   *events.Scheduler
	audit    *audited.Recorder
	// statements counts what clients execute.
	statements *statements.Recorder
	perf       *perfschema.Env
	sys        *sysschema.Env

	settings Settings
	// settingsTurn is full while settings are applied. It is a channel, because settings are read
	// over the network meanwhile, and a client that leaves must not wait for that.
	settingsTurn chan struct{}
	settingsTS   base.Timestamp
}

func (g *gateway) tableEnv() *table.Env     { return g.Env.Env }
func (g *gateway) sessionEnv() *session.Env { return g.Env.Env.Env }

func newGateway(cfg Config) *gateway {
	env := table.NewEnv(&session.Env{DB: cfg.DB, Log: cfg.Logger, Catalog: schema.NewCatalog(cfg.DB),
		Reads: cfg.Reads, Relay: cfg.Relay, Local: cfg.Local, SystemFunction: sysschema.Function})
	g := &gateway{
		Env: ddl.NewEnv(env, cfg.Cluster), cluster: cfg.Cluster, onStmt: cfg.OnStatement, onTxn: cfg.OnTransaction,
		fwd: cfg.Forwarder, settings: cfg.Settings,
		settingsTurn: make(chan struct{}, 1),
	}
	g.audit = &audited.Recorder{Log: cfg.Audit, Wording: g.wording, Address: g.addressOf}
	g.statements = statements.New(cfg.Logger, func(s *session.Session) string { return g.DB.Topology().RegionName(s.Region()) }, g.addressOf)
	g.statements.Tracer, g.statements.Here = cfg.Tracer, g.DB.Region()
	g.perf = &perfschema.Env{Statements: g.statements, Processes: func() []sql.Process { return g.engine.ProcessList.Processes() }, Rights: g.rights,
		Cluster: cfg.Cluster}
	g.sys = &sysschema.Env{Perf: g.perf, Next: func(ctx *sql.Context, t *schema.Table) (uint64, error) {
		return table.New(g.tableEnv(), t).PeekNextAutoIncrementValue(ctx)
	}}
	g.System = g.systemDatabase
	g.Sees = func(ctx *sql.Context, db, name string) bool {
		return rights.Of(ctx, g.engine.Analyzer.Catalog.MySQLDb).Sees(db, name)
	}
	locks := named.New()
	g.Functions = lent.Functions()
	maps.Copy(g.Functions, locks.Functions())
	g.Functions["current_role"] = rights.RoleFunction(func() *mysql_db.MySQLDb { return g.engine.Analyzer.Catalog.MySQLDb })
	g.Memory = func() session.Budget { return g.query.SessionBudget() }
	g.Ended = func(s *session.Session) {
		locks.ReleaseAll(s)
		g.statements.Ended(s)
		// The connection may have another session by now (COM_RESET_CONNECTION).
		if g.sessions.CompareAndDelete(s.ID(), s) {
			g.presences.Delete(s.ID())
		}
	}
	session.InitSystemVariables()
	rights.Install()
	infoschema.Install()
	pro := ddl.NewProvider(g.Env)
	overrides := sql.EngineOverrides{Builder: sql.BuilderOverrides{Parser: &parser{Parser: sql.NewMysqlParser(), g: g}}}
	a := analyzer.NewBuilder(pro).AddOverrides(overrides).Build()
	g.query = &selects.Runner{}
	g.events = &events.Scheduler{Env: g.Env, Run: g.runEvent, On: func() bool {
		_, v, _ := sql.SystemVariables.GetGlobal("event_scheduler")
		return v == "ON"
	}}
	g.Stored = g.query.EngineFunction
	g.query.DescribeViews(a.Catalog.InfoSchema)
	rights.Cover(a.Catalog.InfoSchema, a.Catalog.MySQLDb, map[string]func(rights.SchemaReader) rights.SchemaReader{
		information_schema.StatisticsTableName:      infoschema.Statistics,
		information_schema.EventsTableName:          g.events.Describe,
		information_schema.TablePrivilegesTableName: perfschema.Granted,
	})
	a.Catalog.InfoSchema = stored.Cover(a.Catalog.InfoSchema, g.rights)
	if missing := rules.Install(a); len(missing) > 0 || !rules.Around(a, "validateCreateTable", like.Indexes) {
		panic(fmt.Sprintf("the engine has no rules %q any more, which package rules mends", missing))
	}
	a.Catalog.StatsProvider = ddl.Analyzing{StatsProvider: a.Catalog.StatsProvider, Env: g.tableEnv()}
	g.prefetch = prefetch.New(g.tableEnv(), a)
	keeps := &bound.Builder{Overrides: overrides}
	a.ExecBuilder = rowexec.NewBuilder(&builder{g: g, base: a, pre: g.prefetch, bound: keeps}, overrides)
	keeps.Install(a)
	g.engine = sqle.New(a, &sqle.Config{VersionPostfix: "Godwit"})
	g.users = users.New(g.DB, g.engine.Analyzer.Catalog.MySQLDb, g.Go, errBehind)
	g.engine.ProcessList = &kill.List{ProcessList: g.engine.ProcessList, Sessions: &g.sessions}
	g.prefetch.Engine = g.engine
	g.fast = &fast.Runner{Env: g.tableEnv(), Engine: g.engine}
	g.query.Engine, g.query.Limit, g.query.Turns = g.engine, cfg.Memory, cfg.Turns
	g.whole = &oneshot.Runner{Fast: g.fast, Tally: tally.Tally{On: cfg.OnProgram}}
	g.query.Whole = g.whole
	g.query.Fallbacks.On, g.query.Where, g.query.Meter = cfg.OnFallback, g.explained, measured
	g.View = g.query.CheckView
	g.query.Keys = g.uuids.Keys(func() bool { return len(g.DB.Topology().Regions) > 1 })
	a.Runner = audited.Runner{Engine: g.engine, Audit: g.audit}
	g.query.Prefetch = g.prefetch
	g.query.Inner = audited.Runner{Engine: g.engine, Audit: g.audit}
	g.logins = newLogins(g)
	g.backups = &backup.Env{Env: g.Env, Policy: cfg.Backups, Rights: g.rights, Closing: g.draining.Load, Pace: cfg.BackupPace, Turns: cfg.Turns,
		Resolve: func(ctx *sql.Context, t *schema.Table) sql.Schema {
			return planbuilder.NewBuilderForColumnDefaultResolution(ctx, overrides).
				ResolveSchemaDefaults(t.Desc.DB, t.Desc.Name, t.Schema())
		}}
	g.binlog = &binlog.Env{Feed: feed.Env{DB: cfg.DB, Log: cfg.Logger}, Log: cfg.Logger, Closing: g.draining.Load}
	g.bulk = &bulk.Env{Env: g.Env, Policy: cfg.Backups, Rights: g.rights, Closing: g.draining.Load, Runner: g.query}
	g.replica = &replica.Env{Env: g.Env, Rights: g.rights, ServerID: func() uint32 { return g.binlog.Identity().ServerID }}
	g.feeds = &changefeed.Env{Env: g.Env, Policy: sink.Policy{Places: cfg.Backups, Allowed: cfg.Sinks}, Rights: g.rights}
	return g
}
