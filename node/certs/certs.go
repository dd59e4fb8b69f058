// Package certs tells when the certificates of a node end.
package certs

import (
	"cmp"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/sql/server"
)

// Set are the certificates of a node.
type Set struct {
	Node *ident.Files // nil without TLS between nodes
	SQL  *ident.Port  // what MySQL clients are shown; nil: the node has no files
}

// End is when a certificate of a node ends.
type End struct {
	Node  base.NodeID `json:"node"`
	What  string      `json:"what"` // node, authority or sql
	Until time.Time   `json:"until"`
}

// Topics are what the database godwit shows of certificates.
var Topics = []server.Topic{{Name: "certificates", Comment: "certificates of the nodes, and when they end", Columns: []server.TopicColumn{
	{Name: "node", Kind: server.TopicInt}, {Name: "region", Kind: server.TopicText}, {Name: "certificate", Kind: server.TopicText},
	{Name: "until", Kind: server.TopicTime}, {Name: "left_s", Kind: server.TopicFloat}, {Name: "state", Kind: server.TopicText}}}}

// soon is when an end is near: a node warns in its log from then on.
const soon = 30 * 24 * time.Hour

// Ends are those of the node's certificates. Of several authorities it is the one that ends first.
func (s *Set) Ends(node base.NodeID) (out []End) {
	if s.Node != nil {
		out = append(out, End{node, "node", s.Node.Until()}, End{node, "authority", s.Node.AuthorityUntil()})
	}
	if s.SQL != nil {
		out = append(out, End{node, "sql", s.SQL.Until()})
	}
	return out
}

// Rows are the rows of certificates, those that end first at the top.
func Rows(t *base.Topology, all []End, now time.Time) (rows [][]any) {
	slices.SortFunc(all, func(a, b End) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Node, b.Node), cmp.Compare(a.What, b.What))
	})
	for _, e := range all {
		left, state := e.Until.Sub(now), "good"
		switch {
		case left <= 0:
			state = "expired"
		case left < soon:
			state = "ends soon"
		}
		rows = append(rows, []any{e.Node, t.RegionName(t.RegionOf(e.Node)), e.What, e.Until.UTC(), left.Round(time.Second).Seconds(), state})
	}
	return rows
}
