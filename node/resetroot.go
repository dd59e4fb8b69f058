package node

import (
	"net/http"

	"github.com/godwitdb/godwit/cluster"
)

// serveResetRoot answers POST cluster.PathResetRoot: it gives root another password.
func (n *Node) serveResetRoot(w http.ResponseWriter, r *http.Request) {
	var q cluster.ResetRootRequest
	if !decode(w, r, &q) {
		return
	}
	srv, err := n.server()
	if err != nil {
		answer(w, http.StatusServiceUnavailable, err)
		return
	}
	if err := srv.ResetRoot(r.Context(), q.Root); err != nil {
		answer(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, nil)
}
