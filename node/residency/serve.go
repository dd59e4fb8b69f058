package residency

import (
	"encoding/json"
	"net/http"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Path audits the store of the node that is asked: POST Request, answered with a Report.
const Path = "/residency"

// Handler answers requests to Path at a node.
func Handler(s *store.Store, topology func() *base.Topology, self base.NodeID) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Request
		refuse := func(code int, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		}
		if err := join.Decode(r, &q); err != nil {
			refuse(http.StatusBadRequest, err)
			return
		}
		got, err := Audit(r.Context(), s, topology(), self, q)
		if err != nil {
			refuse(http.StatusConflict, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got)
	}
}
