package node

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/sql/server"
)

// maxChange is how many bytes of a request for a change are read, at most.
const maxChange = 1 << 16

// decode reads a request for a change. If it is malformed, decode answers it with the error, and ok
// is false.
func decode(w http.ResponseWriter, r *http.Request, q any) (ok bool) {
	err := json.NewDecoder(io.LimitReader(r.Body, maxChange)).Decode(q)
	if err != nil {
		answer(w, http.StatusBadRequest, errors.New("malformed request: "+err.Error()))
	}
	return err == nil
}

// answer ends a request for a change: with an empty answer, or with the reason of the refusal.
func answer(w http.ResponseWriter, status int, err error) {
	var a join.InitReply
	if err != nil {
		a.Error = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // an error means that the client is gone
}

// server is the node's SQL server; an error until that serves.
func (n *Node) server() (*server.Server, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sql == nil {
		return nil, errors.New("this node does not serve SQL yet: retry")
	}
	return n.sql, nil
}
