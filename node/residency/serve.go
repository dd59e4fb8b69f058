package residency

import (
	"net/http"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Path audits the store of the node that is asked: POST Request, answered with a Report.
const Path = "/residency"

// Handler answers requests to Path at a node. belongs is Request.Belongs.
func Handler(s *store.Store, topology func() *base.Topology, self base.NodeID,
	belongs func(key base.Key, row []byte) base.ShardID) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Request
		if err := join.Decode(r, &q); err != nil {
			join.Reply(w, http.StatusBadRequest, join.InitReply{Error: err.Error()})
			return
		}
		q.Belongs = belongs
		if got, err := Audit(r.Context(), s, topology(), self, q); err != nil {
			join.Reply(w, http.StatusConflict, join.InitReply{Error: err.Error()})
		} else {
			join.Reply(w, http.StatusOK, got)
		}
	}
}
