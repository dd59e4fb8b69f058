package cluster

import (
	"context"
	"net/http"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
)

// PathClock sets the cluster setting clock.mode: POST {"mode": "auto"}.
const PathClock = "/cluster/clock"

// PathEpochsCopy has the node asked, which has halted, copy the rows of MULTI MASTER tables from
// another one: POST {}.
const PathEpochsCopy = "/cluster/epochs/copy"

// PathResetRoot gives the user root another password: POST ResetRootRequest.
const PathResetRoot = "/cluster/reset-root"

// ResetRootRequest has the hash of root's new password for caching_sha2_password.
type ResetRootRequest struct {
	Root string `json:"root"`
}

// PathDecommission takes a node out: POST {"node": 3}.
const PathDecommission = "/cluster/decommission"

// PathDropRegion lets a region leave: POST DropRegionRequest.
const PathDropRegion = "/cluster/regions/drop"

// DropRegionRequest names the region, and the one that gets its rows; empty: the nearest.
type DropRegionRequest struct {
	Region string `json:"region"`
	Into   string `json:"into,omitempty"`
}

// Register adds the handlers of a running node.
func (c *Cluster) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, r *http.Request) {
		join.Reply(w, http.StatusOK, c.Status(r.Context()))
	})
	mux.HandleFunc("POST "+PathPromote, c.servePromote)
	mux.HandleFunc("POST "+PathUpgrade, changes(func(ctx context.Context, _ struct{}) (*base.Topology, error) {
		return c.FinalizeUpgrade(ctx)
	}))
	mux.HandleFunc("POST "+PathDropRegion, changes(func(ctx context.Context, q DropRegionRequest) (*base.Topology, error) {
		return c.DropRegion(ctx, q.Region, q.Into)
	}))
	type decommission struct {
		Node base.NodeID `json:"node"`
	}
	mux.HandleFunc("POST "+PathDecommission, changes(func(ctx context.Context, q decommission) (*base.Topology, error) {
		return c.Decommission(ctx, q.Node)
	}))
}

// changes serves requests that change the topology.
func changes[Q any](do func(context.Context, Q) (*base.Topology, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := join.Decode(r, &q); err != nil {
			join.Reply(w, http.StatusBadRequest, join.InitReply{Error: err.Error()})
		} else if t, err := do(r.Context(), q); err != nil {
			join.Reply(w, http.StatusConflict, join.InitReply{Error: err.Error()})
		} else {
			join.Reply(w, http.StatusOK, join.InitReply{ClusterID: t.ClusterID, Topology: *t})
		}
	}
}
