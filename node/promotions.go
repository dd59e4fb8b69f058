package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/owner/rewind"
	"github.com/godwitdb/godwit/sql/server"
)

const askLosses = "losses"

// Loss says what a group lost in a promotion: the commits above the cut that its copies held.
type Loss struct {
	Promotion uint64           `json:"promotion"`
	Group     base.GroupID     `json:"group"`
	Nodes     []base.NodeID    `json:"nodes"` // that have reported
	Txns      int              `json:"txns"`
	Rows      int              `json:"rows"`
	List      []rewind.LostTxn `json:"list,omitempty"`
}

// localLosses are the reports of this node.
func (n *Node) localLosses() (out []Loss, err error) {
	for _, p := range n.cluster.Topology().Promotions {
		for _, g := range p.Groups {
			var l rewind.Lost
			if ok, err := loadJSON(n.store, lostRecord(p.ID, g.Group), &l); err != nil {
				return nil, err
			} else if ok {
				out = append(out, Loss{Promotion: p.ID, Group: g.Group, Nodes: []base.NodeID{l.Node}, Txns: l.Txns,
					Rows: l.Rows, List: l.List})
			}
		}
	}
	return out, nil
}

// Losses gathers the reports of all nodes that answer, by promotion and group. A node of the lost
// region reports when it is back.
func (n *Node) Losses(ctx context.Context) []Loss {
	t := n.cluster.Topology()
	if len(t.Promotions) == 0 {
		return nil
	}
	all, err := n.localLosses()
	if err != nil {
		n.log.Warn("the reports of promotions cannot be read", "err", err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, x := range t.Nodes {
		if x.Gone || x.ID == n.ident.Node {
			continue
		}
		wg.Go(func() {
			b, err := n.cluster.Ask(ctx, x.ID, askLosses, nil)
			var more []Loss
			if err == nil && json.Unmarshal(b, &more) == nil {
				mu.Lock()
				all = append(all, more...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return mergeLosses(all)
}

// mergeLosses joins the reports of several nodes. A transaction's loss is certain if one report
// says so.
func mergeLosses(all []Loss) (out []Loss) {
	slices.SortFunc(all, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Promotion, b.Promotion), cmp.Compare(a.Group, b.Group), slices.Compare(a.Nodes, b.Nodes))
	})
	for _, l := range all {
		if k := len(out) - 1; k >= 0 && out[k].Promotion == l.Promotion && out[k].Group == l.Group {
			out[k].join(l)
		} else {
			out = append(out, l)
		}
	}
	return out
}

func (l *Loss) join(o Loss) {
	l.Nodes = append(l.Nodes, o.Nodes...)
	for _, x := range o.List {
		i := slices.IndexFunc(l.List, func(y rewind.LostTxn) bool { return y.ID == x.ID })
		if i < 0 {
			l.List = append(l.List, x)
			continue
		}
		y := &l.List[i]
		y.Unsure = y.Unsure && x.Unsure
		for _, k := range x.Keys {
			if !slices.ContainsFunc(y.Keys, func(o base.Key) bool { return o.Compare(k) == 0 }) {
				y.Keys = append(y.Keys, k)
			}
		}
	}
	slices.SortFunc(l.List, func(a, b rewind.LostTxn) int { return cmp.Compare(a.TS, b.TS) })
	// Reports list a bounded number of transactions, but count all of them.
	rows := 0
	for i := range l.List {
		rows += l.List[i].Rows()
	}
	l.Txns, l.Rows = max(l.Txns, o.Txns, len(l.List)), max(l.Rows, o.Rows, rows)
}

// Promote implements server.Cluster.
func (s show) Promote(ctx context.Context, lost, seat string, force, back bool) error {
	_, err := s.n.cluster.Promote(ctx, cluster.PromoteRequest{Lost: lost, Seat: seat, Force: force, Back: back})
	return err
}

var promotionTopics = []server.Topic{
	{Name: "promotions", Comment: "groups of asynchronous tables that survivors of a region have taken over, " +
		"and what was lost", Columns: slices.Concat(
		columns(server.TopicInt, "promotion"), columns(server.TopicTime, "at"),
		columns(server.TopicText, "lost_region", "group_region", "seat", "group_name"),
		columns(server.TopicTime, "cut", "closed"), columns(server.TopicInt, "source"), columns(server.TopicBool, "back"),
		columns(server.TopicInt, "lost_transactions", "lost_rows"), columns(server.TopicText, "reported_by"))},
	{Name: "losses", Comment: "rows written beyond the cut of a promotion, as far as nodes have reported them",
		Columns: slices.Concat(
			columns(server.TopicInt, "promotion"), columns(server.TopicText, "group_name", "txn"),
			columns(server.TopicTime, "committed_at"),
			columns(server.TopicBool, "unsure"), columns(server.TopicText, "row_name", "table_name"))},
}

// showPromotions are the rows of the topic promotions.
func (n *Node) showPromotions(ctx context.Context) (rows [][]any) {
	losses := n.Losses(ctx)
	for _, p := range n.cluster.Accounts(n.cluster.Topology().Promotions) {
		var txns, lost int
		by := []base.NodeID{}
		for _, l := range losses {
			if l.Promotion == p.ID && l.Group.String() == p.Group {
				txns, lost, by = l.Txns, l.Rows, l.Nodes
			}
		}
		rows = append(rows, []any{p.ID, p.At.Time(), p.Lost, p.Region, p.Seat, p.Group, p.Cut.Time(), p.Closed.Time(),
			p.Source, p.Back, txns, lost, fmt.Sprint(by)})
	}
	return rows
}

// showLosses are the rows of the topic losses.
func (n *Node) showLosses(ctx context.Context) (rows [][]any) {
	for _, l := range n.Losses(ctx) {
		for _, x := range l.List {
			row := []any{l.Promotion, l.Group.String(), x.ID.String(), x.TS.Time(), x.Unsure, nil, nil}
			if x.Rows() == 0 {
				rows = append(rows, row)
			}
			for _, k := range x.Keys {
				if k.Index() != 0 {
					continue // an entry of an index, of a row in another shard or group
				}
				r := slices.Clone(row)
				r[5], r[6] = n.rowName(k), n.tableName(k)
				if rows = append(rows, r); len(rows) == maxShown {
					return rows
				}
			}
		}
	}
	return rows
}
