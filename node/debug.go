package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/node/bundle"
	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/schema"
)

// This file has what a node tells for `godwit debug zip`.

const (
	// recentLog is what is kept of the log in memory, in bytes, and tailLog what a bundle has of
	// its files.
	recentLog = 2 << 20
	tailLog   = 8 << 20
	// maxBundled bounds the rows of a table in a bundle. They are the newest.
	maxBundled = 2000
)

// bundled are the topics about how the cluster is, and about what it has decided by itself. Others
// have values of rows, or statements.
var bundled = []string{"nodes", "groups", "health", "problems", "clock", "replicas", "links", "round_trips", "epochs", "jobs",
	"decisions/moves", "decisions/heat", "decisions/leader_moves", "decisions/leaders", "decisions/clock_history",
	"decisions/splits", "decisions/consistency", "decisions/health_history", "decisions/plan_history", "decisions/promotions",
	"decisions/advice", "decisions/transactions", "decisions/locks"}

func (n *Node) bundles(cfg Config) http.Handler {
	parts := []bundle.Part{
		bundle.JSON("version.json", func(context.Context) (any, error) { return bundle.Version(n.began), nil }),
		bundle.JSON("config.json", func(context.Context) (any, error) { return bundle.Flags(cfg), nil }),
		{Name: "ready.txt", Make: func(_ context.Context, w io.Writer) error {
			why := n.unready()
			if why == "" {
				why = "ready"
			}
			_, err := fmt.Fprintln(w, why)
			return err
		}},
		{Name: "log.jsonl", Make: func(_ context.Context, w io.Writer) error {
			_, err := cfg.recent.WriteTo(w)
			return err
		}},
		bundle.Body("metrics.txt", func() (http.Handler, error) {
			if h := n.metrics.Load(); h != nil {
				return *h, nil
			}
			return nil, errNoCluster
		}),
		n.ofCluster("topology.json", func(_ context.Context, c *cluster.Cluster) any { return c.Topology() }),
		n.ofCluster("status.json", func(ctx context.Context, c *cluster.Cluster) any { return c.Status(ctx) }),
		bundle.JSON("settings.json", n.bundledSettings),
		{Name: "schema.sql", Make: n.writeSchema},
	}
	for _, t := range bundled {
		parts = append(parts, bundle.JSON(t+".json", n.bundledTopic(path.Base(t))))
	}
	if cfg.LogFile != "" {
		parts = append(parts, bundle.Part{Name: "log-files.txt", Make: func(_ context.Context, w io.Writer) error {
			return bundle.Tail(w, cfg.LogFile, tailLog)
		}})
	}
	var none error
	if cfg.Insecure && !cfg.Pprof {
		none = errors.New("a node with --insecure gives profiles with --pprof only")
	}
	return bundle.NewServer(parts, none, n.log)
}

// errNoCluster is why a node that waits for its cluster cannot tell what a cluster knows.
var errNoCluster = errors.New("the node does not take part in a cluster yet")

func (n *Node) ofCluster(name string, get func(context.Context, *cluster.Cluster) any) bundle.Part {
	return bundle.JSON(name, func(ctx context.Context) (any, error) {
		n.mu.Lock()
		c := n.cluster
		n.mu.Unlock()
		if c == nil {
			return nil, errNoCluster
		}
		return get(ctx, c), nil
	})
}

// bundledSettings are the cluster settings by name, with their values at this node.
func (n *Node) bundledSettings(context.Context) (any, error) {
	knobs := n.knobs.Load()
	if knobs == nil {
		return nil, errNoCluster
	}
	out := map[string]any{}
	for _, s := range knobs.List() {
		out[s.Name] = map[string]any{"value": bundle.Hide(s.Name, s.Value), "default": s.Default}
	}
	return out, nil
}

// bundledTopic are the newest rows of a topic of SHOW GODWIT, each as an object.
func (n *Node) bundledTopic(topic string) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		if _, err := n.server(); err != nil {
			return nil, err // what serves SQL is the last part of a node to be there
		}
		for _, t := range (show{n}).Topics() {
			if t.Name != topic {
				continue
			}
			rows := shown[topic](n, ctx)
			out := []map[string]any{}
			for _, r := range rows[max(0, len(rows)-maxBundled):] {
				o := map[string]any{}
				for i, c := range t.Columns {
					o[c.Name] = r[i]
				}
				out = append(out, o)
			}
			return out, nil
		}
		return nil, fmt.Errorf("there is no topic %s", topic)
	}
}

func (n *Node) writeSchema(ctx context.Context, w io.Writer) error {
	srv, err := n.server()
	if err != nil {
		return err
	}
	snap, err := srv.Catalog().Current(ctx)
	if err != nil {
		return err
	}
	top := n.cluster.Topology()
	_, err = io.WriteString(w, describe.Skeleton(ctx, snap, func(l schema.Locality) string { return l.Text(top.RegionName) }))
	return err
}
