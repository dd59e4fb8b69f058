package node

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/godwitdb/godwit/cluster"
)

// serveResetRoot answers POST cluster.PathResetRoot: it gives root another password.
func (n *Node) serveResetRoot(w http.ResponseWriter, r *http.Request) {
	var q cluster.ResetRootRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&q); err != nil {
		answer(w, http.StatusBadRequest, errors.New("malformed request: "+err.Error()))
		return
	}
	n.mu.Lock()
	srv := n.sql
	n.mu.Unlock()
	if srv == nil {
		answer(w, http.StatusConflict, errors.New("this node does not serve SQL yet: retry"))
		return
	}
	if err := srv.ResetRoot(r.Context(), q.Root); err != nil {
		answer(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, nil)
}
