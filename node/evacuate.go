package node

import (
	"fmt"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/homing"
)

// mostCounted bounds how many rows one look counts that have to leave a region.
const mostCounted = 20_000

// evacuate queues moves of the rows of a group led here to another region, and says what is left.
// It goes on where it is called again.
func (n *Node) evacuate(g base.GroupID, to base.RegionID) (left string, err error) {
	n.mu.Lock()
	mover := n.mover
	n.mu.Unlock()
	if mover == nil {
		return "its node is still starting", nil
	}
	var first, other base.Key
	seen := 0
	count, err := n.owners.Living(g, func(k base.Key) bool {
		switch waiting, most := mover.Waiting(); {
		case k.Index() != 0 && !k.Table().IsSpace():
			if other == nil {
				other = k.Clone() // an entry moves with its row
			}
		case waiting < most:
			if first == nil {
				first = k.Clone()
			}
			mover.Propose(homing.Proposal{Key: k.Clone(), From: g.Region(), To: to, Must: true})
		}
		seen++
		return seen < mostCounted
	})
	if err != nil || count == 0 {
		return "", err
	}
	if first == nil {
		first = other
	}
	what, _ := n.tableName(first).(string)
	return fmt.Sprintf("%d rows and entries are still at home there, the first of %s", count, what), nil
}

// boundTo are the tables whose rows live in a region as their locality says, as far as this node
// knows.
func (n *Node) boundTo(r base.RegionID) (names []string) {
	srv, err := n.server()
	if err != nil {
		return nil
	}
	snap := srv.Catalog().Loaded()
	if snap == nil {
		return nil
	}
	for _, t := range snap.ByID {
		if t.Desc.Home() == r {
			names = append(names, t.Desc.DB+"."+t.Desc.Name)
		}
	}
	return names
}
