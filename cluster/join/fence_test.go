package join

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/cluster/fence"
)

// memberAt is a process of a member of a cluster, whose server has the given address.
func memberAt(srv *httptest.Server, addr, region string, id *Identity) *Bootstrap {
	self := Joiner{UUID: NewUUID(), Region: region, Addr: addr, SQL: "sql-" + addr}
	return NewBootstrap(self, nil, id, srv.Client(), slog.New(slog.DiscardHandler), nil)
}

// TestConfirmedLate: a node that remembers a claim answers too late, so that the others are asked
// again. The store is no old copy for that: it is asked about with the beat that was remembered.
func TestConfirmedLate(t *testing.T) {
	const cluster = "00112233445566778899aabbccddeeff"
	handler := http.NewServeMux()
	late := 1 // answers to be lost of those that remember
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var j Joiner
		if err == nil {
			err = json.Unmarshal(body, &j)
		}
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if j.Claim.Take && late > 0 {
			late--
			handler.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "too late", http.StatusGatewayTimeout)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	other := memberAt(srv, strings.TrimPrefix(srv.URL, "http://"), "eu", &Identity{ClusterID: cluster, Node: 1})
	other.Judge(fence.NewBook(nil, func(map[string]fence.Memory, bool) error { return nil }))
	other.Register(handler)
	b := memberAt(srv, "127.0.0.1:1", "us", &Identity{ClusterID: cluster, Node: 2})
	line := fence.Lineage{}.Begin(7)
	beats := 0
	err := b.Confirm(t.Context(), cluster, Confirmation{
		Claim:   fence.Claim{Lineage: line},
		Members: []Joiner{other.self},
		Enough:  func(ok map[string]bool) bool { return ok[other.self.UUID] },
		Beat: func() (fence.Claim, error) {
			beats++
			line = line.Beat()
			return fence.Claim{Lineage: line}, nil
		},
	})
	if err != nil || beats != 2 || late != 0 {
		t.Errorf("after %d beats: %v", beats, err)
	}
	old := fence.Claim{Lineage: fence.Lineage{}.Begin(7)}
	if v, why, err := other.book.Judge(b.self.UUID, &old, time.Now()); v != fence.Stale {
		t.Errorf("a copy without these beats: %v %s (%v)", v, why, err)
	}
}
