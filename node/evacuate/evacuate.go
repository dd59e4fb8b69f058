// Package evacuate has the rows of a region that is being dropped move to another one
// (docs/protocol.md, REGION-4), and finds the tables that stand in the way.
package evacuate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/sql/schema"
)

const (
	// mostCounted bounds how many rows one look counts.
	mostCounted = 20_000
	// catalogWait bounds how long a look waits for the catalog.
	catalogWait = 2 * time.Second
)

// Node is what is needed of a node.
type Node struct {
	// Living counts the rows of a group, and hands each to row until that returns false.
	Living func(g base.GroupID, row func(key base.Key) bool) (int, error)
	// Mover moves rows; nil while the node starts.
	Mover func() Mover
	// Catalog is where tables are described; nil: this node serves no SQL. An error: not yet.
	Catalog func() (*schema.Catalog, error)
}

// Mover queues moves of rows.
type Mover interface {
	Propose(homing.Proposal)
	Waiting() (n, most int)
}

// Rows queues moves of the rows of a group led here to another region, and says what is left. It
// goes on where it is called again. What a dropped table has left behind does not count: nobody
// reads it, and UNDROP finds it where it is.
func (n *Node) Rows(ctx context.Context, g base.GroupID, to base.RegionID) (left string, err error) {
	mover := n.Mover()
	if mover == nil {
		return "its node is still starting", nil
	}
	tables, err := n.tables(ctx)
	if err != nil {
		return "", err
	}
	var first base.Key
	count := 0
	_, err = n.Living(g, func(k base.Key) bool {
		if tables != nil && !k.Table().IsSpace() && tables.ByID[k.Table()] == nil {
			return true
		}
		if count++; first == nil {
			first = k.Clone()
		}
		waiting, most := mover.Waiting()
		if row := k.Index() == 0 || k.Table().IsSpace(); row && waiting < most && k.Table() != base.PreparedTable { // an entry moves with its row
			mover.Propose(homing.Proposal{Key: k.Clone(), From: g.Region(), To: to, Must: true})
		}
		return count < mostCounted
	})
	if err != nil || count == 0 {
		return "", err
	}
	what := fmt.Sprintf("key %v", first)
	if tables != nil && tables.ByID[first.Table()] != nil {
		d := tables.ByID[first.Table()].Desc
		what = d.DB + "." + d.Name
	}
	if first.Table() == base.PreparedTable {
		what = "a transaction that XA has prepared (XA RECOVER shows it)"
	}
	return fmt.Sprintf("%d rows and entries are still at home there, the first of %s", count, what), nil
}

// Bound are the tables, by name, whose rows live in a region as their locality says.
func (n *Node) Bound(ctx context.Context, r base.RegionID) (names []string, err error) {
	tables, err := n.tables(ctx)
	if err != nil || tables == nil {
		return nil, err
	}
	for _, t := range tables.ByID {
		if t.Desc.Home() == r {
			names = append(names, t.Desc.DB+"."+t.Desc.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// tables are all tables; nil on a node without SQL, where every key counts.
func (n *Node) tables(ctx context.Context) (*schema.Snapshot, error) {
	c, err := n.Catalog()
	if err != nil || c == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	return c.Current(ctx)
}
