package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/pipe"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/sql/recording"
)

const (
	lan        = 250 * time.Microsecond // one way inside a region
	clockBound = 100 * time.Microsecond
	// settle is how long leads and definitions take to come to rest, and readyWithin how long the
	// nodes may take to serve.
	settle      = 10 * time.Second
	readyWithin = 2 * time.Minute
	// maxShards bounds the shards that tables share: more of them tell nothing of latencies.
	maxShards = 4
)

// world is a cluster in virtual time.
type world struct {
	p       *plan
	seed    uint64 // makes one play differ from another one
	net     *wan.Network
	nodes   []*node.Node
	regions [][]*sql.DB // of each region's nodes
	wan     atomic.Int64
	left    []string // programs that could not be made, and why
}

// pipes are the open listeners by address. The driver finds them by the network "whatif".
var (
	pipes     sync.Map
	pipeCount atomic.Int64
	register  = sync.OnceFunc(func() {
		mysql.RegisterDialContext("whatif", func(ctx context.Context, addr string) (net.Conn, error) {
			l, ok := pipes.Load(addr)
			if !ok {
				return nil, fmt.Errorf("nobody listens at %s", addr)
			}
			return l.(*pipe.Listener).Dial(ctx)
		})
	})
)

// start starts the nodes.
func (w *world) start() error {
	register()
	w.net = wan.NewNetwork(wan.NetOptions{Seed: 1 + w.seed, LAN: wan.LinkSpec{Delay: lan}, Logger: slog.New(slog.DiscardHandler)})
	w.net.SetOneWay(w.p.m.OneWays())
	w.net.Tap(func(t wan.Tapped) { w.wan.Add(int64(len(t.Frame))) })
	// Regions have the same number of nodes each, so that a shard has a copy in each of them.
	per := 1
	for _, r := range w.p.regions {
		per = max(per, min(r.Nodes, 3))
	}
	ident := node.LocalIdentity(w.p.m.Names, per, max(per, min(w.p.f.Shards, maxShards)))
	how, err := base.ParseConcurrency(w.p.f.Concurrency)
	if err != nil {
		return err
	}
	ident.First.Concurrency = how
	w.regions = make([][]*sql.DB, len(w.p.regions))
	for i, nd := range ident.First.Nodes {
		st, err := store.Open(store.InMemory(store.Options{Logger: slog.New(slog.DiscardHandler)}))
		if err != nil {
			return err
		}
		id := *ident
		id.Node = nd.ID
		addr := fmt.Sprintf("whatif:%d", pipeCount.Add(1))
		l := pipe.Listen("whatif", addr)
		pipes.Store(addr, l)
		n, err := node.Assemble(node.Parts{Store: st, Identity: &id, Transport: w.net.Join(nd.ID, nd.Region),
			Source: clock.NewWall(clockBound), Log: slog.New(slog.DiscardHandler), GCAge: 10 * time.Minute, Seed: uint64(nd.ID),
			SQLListener: l})
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
		db, err := sql.Open("mysql", "root@whatif("+addr+")/")
		if err != nil {
			return err
		}
		w.regions[i/per] = append(w.regions[i/per], db)
	}
	deadline := time.NewTimer(readyWithin)
	defer deadline.Stop()
	for _, n := range w.nodes {
		select {
		case <-n.Ready():
		case err := <-n.Failed():
			return err
		case <-deadline.C:
			return errors.New("the cluster did not become ready")
		}
	}
	return nil
}

// close stops all, and lets time pass so that no goroutine outlives it.
func (w *world) close() error {
	var errs []error
	for _, dbs := range w.regions {
		for _, db := range dbs {
			errs = append(errs, db.Close())
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		wg.Go(func() {
			err := n.Kill()
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	time.Sleep(2 * time.Minute)
	return errors.Join(append(errs, w.net.Close())...)
}

// fill makes settings, tables and rows.
func (w *world) fill(ctx context.Context) error {
	c, err := w.regions[0][0].Conn(ctx)
	if err != nil {
		return err
	}
	defer drop(c)
	for name, value := range w.p.f.Settings {
		if _, err := c.ExecContext(ctx, "SET CLUSTER SETTING "+name+" = "+recording.Quote(value)); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	if err := w.placements(ctx, c); err != nil {
		return err
	}
	made := map[string]bool{}
	if _, err := c.ExecContext(ctx, "SET foreign_key_checks = 0"); err != nil {
		return err
	}
	for i := range w.p.f.Tables {
		t := &w.p.f.Tables[i]
		if !made[t.DB] {
			made[t.DB] = true
			if _, err := c.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+name(t.DB)); err != nil {
				return err
			}
		}
		if t.Left != "" {
			continue
		}
		if err := run(ctx, c, "USE "+name(t.DB), t.Create+w.p.clause(t)); err != nil {
			return fmt.Errorf("table %s.%s: %w", t.DB, t.Name, err)
		}
	}
	time.Sleep(settle)
	fresh, filled := w.p.inserted(), w.p.filled()
	for i := range w.p.f.Tables {
		t := &w.p.f.Tables[i]
		if t.Left != "" {
			continue
		}
		if err := w.rows(ctx, t, fresh, filled[strings.ToLower(t.DB+"."+t.Name)]); err != nil {
			return fmt.Errorf("rows of %s.%s: %w", t.DB, t.Name, err)
		}
	}
	if err := w.programs(ctx, c); err != nil {
		return err
	}
	for _, q := range w.p.c.Do {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	time.Sleep(settle)
	return nil
}

func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

func run(ctx context.Context, c *sql.Conn, all ...string) error {
	for _, q := range all {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// rows inserts those of a table where they are at home, but those that the recording inserts.
// filled: programs insert into it, so what is new there is of the recording.
func (w *world) rows(ctx context.Context, t *recording.Table, fresh map[string]bool, filled bool) error {
	byHome := make([][]recording.Row, len(w.regions))
	pinned := 0
	for _, r := range t.Rows {
		if filled && r.New || fresh[rowName(t, r.Values)] {
			continue
		}
		h := w.p.instead(r.Home)
		byHome[h] = append(byHome[h], r)
		if r.Pinned {
			pinned++
		}
	}
	into := "INSERT INTO " + name(t.DB) + "." + name(t.Name) + " (" + names(t.Columns) + ") VALUES "
	for h, rows := range byHome {
		c, err := w.regions[h][0].Conn(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer c.Close()
			if err := run(ctx, c, "SET foreign_key_checks = 0"); err != nil {
				return err
			}
			for some := range slices.Chunk(rows, 200) {
				var all []string
				for _, r := range some {
					all = append(all, "("+strings.Join(r.Values, ", ")+")")
				}
				if err := run(ctx, c, into+strings.Join(all, ", ")); err != nil {
					return err
				}
			}
			return w.pin(ctx, c, t, rows, pinned == len(t.Rows))
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// pin pins the rows that are, where they are.
func (w *world) pin(ctx context.Context, c *sql.Conn, t *recording.Table, rows []recording.Row, all bool) error {
	if l := w.p.clause(t); strings.Contains(l, "GLOBAL") || strings.Contains(l, "MULTI") {
		return nil // all regions have its rows
	}
	homes := name(t.DB) + "." + name(t.Name+"__homes")
	if all && len(rows) > 0 {
		return run(ctx, c, "UPDATE "+homes+" SET pinned = TRUE")
	}
	for _, r := range rows {
		if !r.Pinned || len(t.Key) == 0 {
			continue
		}
		var where []string
		for i, k := range keyOf(t, r.Values) {
			where = append(where, name(t.Key[i])+" = "+k)
		}
		if err := run(ctx, c, "UPDATE "+homes+" SET pinned = TRUE WHERE "+strings.Join(where, " AND ")); err != nil {
			return err
		}
	}
	return nil
}

func names(cols []string) string {
	var out []string
	for _, c := range cols {
		out = append(out, name(c))
	}
	return strings.Join(out, ", ")
}
