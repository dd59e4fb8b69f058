package sqlfront

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// gateway is what all sessions of one node share.
type gateway struct {
	db       kv.DB
	log      *slog.Logger
	cluster  Cluster
	catalog  *catalog
	counters *counters
	rowIDs   *rowIDs
	stats    *tableStats
	gc       *collector
	jobs     *jobs
	copies   sync.Map // successors of tables that this node copies rows to, by id
	engine   *sqle.Engine
	sessions sync.Map // connection id -> *Session
	onStmt   func(kind string, d time.Duration, hops int, err error)
	onTxn    func(TxnCost)
	fwd      Forwarder
	reads    Reads
	relay    func() bool
	routes   routes

	fast        fastCache
	noFast      bool     // tests: everything goes through the engine
	noAhead     bool     // tests: changes read row by row
	rehearseAll bool     // tests: statements with triggers are rehearsed even if their rows cost no trips
	usual       locality // tests: of tables that say nothing
	far         sync.Map // tables whose triggers have cost trips, by id
	usersTS     atomic.Uint64

	uuids uuids

	settings   Settings
	settingsMu sync.Mutex
	settingsTS base.Timestamp

	pastMu sync.Mutex
	past   map[base.Timestamp]*snapshot // a few catalogs of the past
}

func newGateway(cfg Config) *gateway {
	g := &gateway{
		db: cfg.DB, log: cfg.Logger, cluster: cfg.Cluster, catalog: newCatalog(cfg.DB), counters: newCounters(cfg.DB),
		rowIDs: &rowIDs{node: cfg.DB.Node()}, stats: newTableStats(cfg.DB), onStmt: cfg.OnStatement, onTxn: cfg.OnTransaction, fwd: cfg.Forwarder, reads: cfg.Reads, relay: cfg.Relay,
		past: map[base.Timestamp]*snapshot{}, settings: cfg.Settings,
	}
	g.gc, g.jobs = newCollector(g), &jobs{g: g}
	initSystemVariables()
	authOnce()
	pro := &provider{g}
	overrides := sql.EngineOverrides{Builder: sql.BuilderOverrides{Parser: &parser{Parser: sql.NewMysqlParser(), g: g}}}
	a := analyzer.NewBuilder(pro).AddOverrides(overrides).Build()
	a.ExecBuilder = rowexec.NewBuilder(&builder{g: g, base: a}, overrides)
	g.engine = sqle.New(a, &sqle.Config{VersionPostfix: "Godwit"})
	a.Runner = runner{g.engine}
	return g
}

// asOfTime reads the operand of AS OF: a time, a date string, seconds since the
// epoch (with fraction) or, if negative, before now, or a negative interval such as '-5s'.
func (g *gateway) asOfTime(ctx *sql.Context, v any) (base.Timestamp, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return 0, err
	}
	bad := func() (base.Timestamp, error) {
		return 0, fmt.Errorf("AS OF '%v' is not a time: use a timestamp, seconds since 1970, or an interval before now such as '-5s'", v)
	}
	switch x := v.(type) {
	case time.Time:
		return base.FromTime(x), nil
	case string:
		x = strings.TrimSpace(x)
		if d, err := time.ParseDuration(x); err == nil {
			if d > 0 {
				return bad()
			}
			return g.db.Clock().Add(d), nil
		}
		for _, layout := range []string{"2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02"} {
			if t, err := time.ParseInLocation(layout, x, time.UTC); err == nil {
				return base.FromTime(t), nil
			}
		}
		if d, err := decimal.NewFromString(x); err == nil {
			return g.asOfTime(ctx, d)
		}
	case decimal.Decimal:
		if x.Sign() < 0 { // seconds before now
			return g.db.Clock().Add(time.Duration(x.Shift(9).IntPart())), nil
		}
		return base.Timestamp(x.Shift(9).IntPart()), nil
	case float64:
		if x < 0 {
			return g.db.Clock().Add(time.Duration(x * 1e9)), nil
		}
		return base.Timestamp(x * 1e9), nil
	default:
		if n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64); err == nil {
			if n < 0 {
				return g.db.Clock().Add(time.Duration(n) * time.Second), nil
			}
			if n > 1e15 {
				return base.Timestamp(n), nil // already nanoseconds
			}
			return base.Timestamp(n * 1e9), nil
		}
	}
	return bad()
}

// snapshotAsOf is the catalog at a time of the past.
func (g *gateway) snapshotAsOf(ctx *sql.Context, asOf any) (*snapshot, base.Timestamp, error) {
	ts, err := g.asOfTime(ctx, asOf)
	if err != nil {
		return nil, 0, err
	}
	if now := g.db.Clock(); ts > now {
		return nil, 0, fmt.Errorf("AS OF lies in the future by %v", ts.Sub(now))
	}
	cur, err := (&provider{g}).snapshotOf(ctx)
	if err != nil {
		return nil, 0, err
	}
	if ts >= cur.changed {
		return cur, ts, nil
	}
	g.pastMu.Lock()
	defer g.pastMu.Unlock()
	if s := g.past[ts]; s != nil {
		return s, ts, nil
	}
	s, err := loadSnapshot(ctx, g.db, cur, ts)
	if err != nil {
		return nil, 0, clientError(err)
	}
	if len(g.past) >= 16 {
		clear(g.past)
	}
	g.past[ts] = s
	return s, ts, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
