package node

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/recorded"
	"github.com/godwitdb/godwit/sql/recording"
)

// This file has what a node tells for `godwit whatif`.

// localRecording is what this node has kept of its clients' statements, packed.
func (n *Node) localRecording() ([]byte, error) {
	out := recorded.Node{Node: n.ID()}
	if srv, err := n.server(); err == nil {
		out.Taken = srv.Statements().Kept.Take()
	}
	return out.Pack()
}

// Recording is what the clients of all nodes that answer have done lately, with other literals than
// theirs.
func (n *Node) Recording(ctx context.Context) (*recording.File, error) {
	srv, err := n.server()
	if err != nil {
		return nil, err
	}
	snap, err := srv.Catalog().Current(ctx)
	if err != nil {
		return nil, err
	}
	own, err := n.localRecording()
	if err != nil {
		return nil, err
	}
	var nodes []recorded.Node
	for _, b := range append(n.cluster.AskAll(ctx, recorded.Ask, recorded.Ask), own) {
		if x, err := recorded.Unpack(b); err == nil {
			nodes = append(nodes, x)
		}
	}
	t := presentOnly(n.cluster.Topology())
	s := recorded.Sources{DB: n.both, Schema: snap, Topology: t, Settings: n.playedSettings()}
	s.Since = time.Now().Add(-n.gcAge * 4 / 5)
	s.Between = func(a, b base.RegionID) time.Duration { return n.between(t, a, b) }
	return s.File(ctx, nodes)
}

// playedSettings are the cluster settings that decide how statements run, and are not at their
// defaults.
func (n *Node) playedSettings() map[string]string {
	out := map[string]string{}
	if all := n.knobs.Load(); all != nil {
		for _, s := range all.List() {
			group, _, _ := strings.Cut(s.Name, ".")
			switch group {
			case "sql", "audit", "backup", "console", "upgrade", "replace", "clock", "split":
			default:
				if s.Value != s.Default {
					out[s.Name] = s.Value
				}
			}
		}
	}
	return out
}

// serveRecording answers administrators.
func (n *Node) serveRecording(w http.ResponseWriter, r *http.Request) {
	f, err := n.Recording(r.Context())
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(f)
}
