// Package godwit opens a Godwit cluster, or one node of it, inside a Go
// program and runs key-value transactions on it without SQL.
//
//	cluster, err := godwit.OpenLocal(ctx, godwit.LocalConfig{Dir: dir}, nil)
//	client := cluster.Nodes()[0].Client()
//	users := godwit.Space("users")
//	_, err = client.Update(ctx, func(t *godwit.Txn) error {
//		name, found, err := t.Get(ctx, users, "42/name")
//		...
//		t.Put(users, "42/name", []byte("Ada"))
//		return nil
//	})
//
// Transactions are strictly serializable, across regions too. A row lives in
// the region that first wrote it. SQL and this package share the cluster but not their data.
//
// Build with -tags gms_pure_go: without it go-mysql-server needs the C library ICU.
package godwit

import (
	"context"
	"log/slog"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/node"
)

// Config of a node of its own; see [Open].
type Config = node.Config

// LocalConfig of a whole cluster in this process; see [OpenLocal].
type LocalConfig = node.LocalConfig

// Node is a running node.
type Node struct{ *node.Node }

// Client runs transactions with this node as their gateway.
func (n Node) Client() *Client { return NewClient(n.DB()) }

// Open starts a real node in this process: disk, TCP, and the MySQL protocol. It returns when the
// node belongs to a cluster and serves; a new cluster is made by `godwit init` (or a POST to its
// cluster port), an existing one is joined through cfg.Join. A nil log discards.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Node, error) {
	n, err := node.Start(ctx, cfg, orDiscard(log))
	if err != nil {
		return nil, err
	}
	select {
	case <-n.Ready():
		return &Node{n}, nil
	case err = <-n.Failed():
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = n.Close(context.WithoutCancel(ctx))
	return nil, err
}

// Cluster is all nodes of all regions in one process, over emulated oceans.
type Cluster struct{ *node.Local }

// Nodes are all nodes, region by region.
func (c *Cluster) Nodes() []Node {
	var out []Node
	for _, n := range c.Local.Nodes() {
		out = append(out, Node{n})
	}
	return out
}

// OpenLocal starts a cluster in this process and returns when it serves.
func OpenLocal(ctx context.Context, cfg LocalConfig, log *slog.Logger) (*Cluster, error) {
	l, err := node.StartLocal(ctx, cfg, orDiscard(log))
	if err != nil {
		return nil, err
	}
	return &Cluster{l}, nil
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Retryable reports whether running a failed transaction again may succeed.
// Update and View do so by themselves.
func Retryable(err error) bool { return base.Retryable(err) }

// Client runs transactions through one gateway.
type Client struct{ db kv.DB }

// NewClient makes a client over a gateway.
func NewClient(db kv.DB) *Client { return &Client{db} }

// Update runs fn in a transaction and commits it, again and again while it
// loses conflicts, until ctx ends. Reads lock what they read. It returns the commit timestamp.
func (c *Client) Update(ctx context.Context, fn func(*Txn) error) (base.Timestamp, error) {
	return kv.Run(ctx, c.db, kv.Options{Follow: true}, func(t kv.Txn) error {
		return fn(&Txn{db: c.db, kv: t, lock: kv.LockExclusive})
	})
}

// View runs fn on one snapshot that holds every commit acknowledged before.
// It takes no locks and waits for no writer.
func (c *Client) View(ctx context.Context, fn func(*Txn) error) error {
	return c.ViewAt(ctx, 0, fn)
}

// ViewAt is View at a timestamp of the past (as returned by Update); 0 is now.
func (c *Client) ViewAt(ctx context.Context, at base.Timestamp, fn func(*Txn) error) error {
	_, err := kv.Run(ctx, c.db, kv.Options{ReadOnly: true, ReadTS: at}, func(t kv.Txn) error { return fn(&Txn{db: c.db, kv: t}) })
	return err
}
