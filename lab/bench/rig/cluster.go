package rig

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/txn"
)

// Cluster is a cluster with one node a region, in this process and in real time, over emulated
// oceans. It has no SQL: its transactions are jobs, which have the form that SQL gives to
// statements.
type Cluster struct {
	*node.Local
	name string
	DBs  []kv.DB // by region
	// Route runs the transaction of a client in a region; nil: it runs where the client is.
	Route func(ctx context.Context, region int, j Job, tr *obs.Trace) error
	// Stale has transactions that only read do so at their region's consistency point.
	Stale bool
	// running counts the transactions under way, also those whose client has left.
	running sync.WaitGroup
}

// Variant is one of the systems that a benchmark compares: the same program with other switches.
// Its errors begin with Name.
type Variant struct {
	Name  string
	Homes home.Params
	Tune  func(*group.HostOptions, *owner.Config, *txn.Config)
}

// Open starts a cluster in the given regions of AWS, with its data below dir.
func Open(ctx context.Context, dir string, regions []string, v Variant) (*Cluster, error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return nil, err
	}
	if m, err = m.Pick(regions...); err != nil {
		return nil, err
	}
	return OpenOn(ctx, dir, m, v)
}

// OpenOn starts a cluster in all regions of a matrix, with its data below dir.
func OpenOn(ctx context.Context, dir string, m *matrix.Matrix, v Variant) (_ *Cluster, err error) {
	if dir, err = os.MkdirTemp(dir, v.Name+"-"); err != nil {
		return nil, err
	}
	params := v.Homes
	l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Shards: 1, Dir: filepath.Join(dir, "data"),
		CacheMB: 64, Homes: &params, NoSQL: true, Tune: v.Tune}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	g := &Cluster{Local: l, name: v.Name}
	for _, n := range l.Nodes() {
		g.DBs = append(g.DBs, n.DB())
	}
	return g, nil
}

// Close waits for the transactions under way and stops the nodes.
func (g *Cluster) Close() error {
	g.Network().HealAll()
	g.running.Wait()
	return g.Local.Close(context.Background())
}

// Moves is how many rows have changed their home since the start.
func (g *Cluster) Moves() int64 {
	var most int64
	for _, n := range g.Nodes() {
		_, total := n.Owners().Moves()
		most = max(most, total)
	}
	return most
}

// Load inserts rows in a region, which becomes their home. Call it in key order for neighbouring
// ranges: the gap behind a key belongs to the region that inserted the key first.
func (g *Cluster) Load(ctx context.Context, region int, ks []base.Key) error {
	if err := Fill(ctx, g.DBs[region], ks, func() []byte { return RowValue }); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	return nil
}

// Run runs the transaction of a client in a region (from 0) until it commits.
func (g *Cluster) Run(ctx context.Context, region int, j Job, tr *obs.Trace) error {
	if g.Route != nil {
		return g.Route(ctx, region, j, tr)
	}
	at := base.Timestamp(0)
	if g.Stale && !j.Writes() {
		// Without a point in time it is a strong read.
		at, _ = g.Nodes()[region].Cluster().ReadPoint(ctx, 0, time.Second)
	}
	return RunJob(ctx, g.DBs[region], j, at, tr)
}
