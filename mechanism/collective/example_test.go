package collective_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/plan"
)

// Three nodes, of which the first two are one group: node 1 speaks for both.
func Example() {
	net := wan.NewNetwork(wan.NetOptions{})
	defer net.Close()
	nodes := []base.NodeID{1, 2, 3}
	grouped := &plan.Plan{
		Groups: []plan.Group{{Members: []int{0, 1}, Aggregators: []int{0}}, {Members: []int{2}, Aggregators: []int{2}}},
		Of:     []int{0, 0, 1},
	}
	var wg sync.WaitGroup
	results := make([]string, 3)
	var comms []*collective.Comm
	for _, id := range nodes {
		tr := net.Join(id, base.RegionID(id))
		c, err := collective.New(tr).Join(1, nodes, collective.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, peer := range nodes {
			tr.SetPeer(peer, "", base.RegionID(peer))
		}
		if err := tr.Start(); err != nil {
			fmt.Println(err)
			return
		}
		if err := c.SetPlan(grouped, 1); err != nil {
			fmt.Println(err)
			return
		}
		comms = append(comms, c)
	}
	for i, c := range comms {
		defer c.Close()
		wg.Go(func() {
			all, err := c.AllGather(context.Background(), 1, fmt.Appendf(nil, "from %d", nodes[i]))
			results[i] = fmt.Sprintf("%q %v", all, err)
		})
	}
	wg.Wait()
	for _, r := range results {
		fmt.Println(r)
	}
	// Output:
	// ["from 1" "from 2" "from 3"] <nil>
	// ["from 1" "from 2" "from 3"] <nil>
	// ["from 1" "from 2" "from 3"] <nil>
}
