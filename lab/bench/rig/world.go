package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/home"
)

// World is a whole cluster in virtual time. Rows stay where they were made.
type World struct {
	Net   *wan.Network
	Nodes []*node.Node
}

// Add starts one more node of the cluster. The store's options and the parts say what is particular
// about it.
func (w *World) Add(ident *join.Identity, nd base.Node, disk store.Options, p node.Parts) error {
	disk.Simulation, disk.Logger = true, slog.New(slog.DiscardHandler)
	st, err := store.Open(disk)
	if err != nil {
		return err
	}
	id := *ident
	id.Node = nd.ID
	p.Store, p.Identity, p.Transport, p.Seed = st, &id, w.Net.Join(nd.ID, nd.Region), uint64(nd.ID)
	p.Log, p.GCAge, p.Homes = slog.New(slog.DiscardHandler), 10*time.Minute, &home.Params{Mode: home.Never}
	n, err := node.Assemble(p)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	w.Nodes = append(w.Nodes, n)
	return nil
}

// Close stops all nodes as a crash would, and then the network. It lets two minutes of virtual time
// pass between, so that no goroutine of the simulation outlives it.
func (w *World) Close() error {
	errs := make([]error, len(w.Nodes))
	var wg sync.WaitGroup
	for i, n := range w.Nodes {
		wg.Go(func() { errs[i] = n.Kill() })
	}
	wg.Wait()
	time.Sleep(2 * time.Minute) // statements that still ask for outcomes give up
	return errors.Join(append(errs, w.Net.Close())...)
}

// Fill writes rows through a node, 500 in a transaction.
func Fill(ctx context.Context, db kv.DB, ks []base.Key, value func() []byte) error {
	for part := range slices.Chunk(ks, 500) {
		if _, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
			for _, k := range part {
				t.Put(k, value(), 0)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	return nil
}

// Properties of the nodes of a simulated cluster that has several nodes a region.
const (
	ClockBound = time.Millisecond       // of the error of their clocks
	DiskSync   = 500 * time.Microsecond // of a synced write
	LAN        = 250 * time.Microsecond // one way inside a region
)
