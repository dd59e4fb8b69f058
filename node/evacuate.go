package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/homing"
)

const (
	// mostCounted bounds how many rows one look counts that have to leave a region.
	mostCounted = 20_000
	// catalogWait bounds how long a look waits for the catalog.
	catalogWait = 2 * time.Second
)

// evacuate queues moves of the rows of a group led here to another region, and says what is left.
// It goes on where it is called again. What a dropped table has left behind does not count: nobody
// reads it, and UNDROP finds it where it is.
func (n *Node) evacuate(ctx context.Context, g base.GroupID, to base.RegionID) (left string, err error) {
	n.mu.Lock()
	mover := n.mover
	n.mu.Unlock()
	if mover == nil {
		return "its node is still starting", nil
	}
	counts, err := n.tables(ctx)
	if err != nil {
		return "", err
	}
	var first base.Key
	count := 0
	_, err = n.owners.Living(g, func(k base.Key) bool {
		if !counts(k.Table()) {
			return true
		}
		if count++; first == nil {
			first = k.Clone()
		}
		waiting, most := mover.Waiting()
		if row := k.Index() == 0 || k.Table().IsSpace(); row && waiting < most { // an entry moves with its row
			mover.Propose(homing.Proposal{Key: k.Clone(), From: g.Region(), To: to, Must: true})
		}
		return count < mostCounted
	})
	if err != nil || count == 0 {
		return "", err
	}
	what, ok := n.tableName(first).(string)
	if !ok {
		what = fmt.Sprintf("key %v", first)
	}
	return fmt.Sprintf("%d rows and entries are still at home there, the first of %s", count, what), nil
}

// tables tells which tables there are. A node that serves no SQL knows of none, and takes all for
// such.
func (n *Node) tables(ctx context.Context) (func(base.TableID) bool, error) {
	srv, err := n.server()
	if err != nil {
		if n.sqlExpected {
			return nil, err
		}
		return func(base.TableID) bool { return true }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	snap, err := srv.Catalog().Current(ctx)
	if err != nil {
		return nil, err
	}
	return func(id base.TableID) bool { return id.IsSpace() || snap.ByID[id] != nil }, nil
}

// boundTo are the tables whose rows live in a region as their locality says.
func (n *Node) boundTo(ctx context.Context, r base.RegionID) (names []string, err error) {
	srv, err := n.server()
	switch {
	case err != nil && n.sqlExpected:
		return nil, err
	case err != nil:
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	snap, err := srv.Catalog().Current(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range snap.ByID {
		if t.Desc.Home() == r {
			names = append(names, t.Desc.DB+"."+t.Desc.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
