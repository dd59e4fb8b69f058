// Command collective exchanges data among ten nodes on four continents with
// package collective, without a database: it plans, runs rounds on an emulated
// network, and compares them with flat ones.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	m, err := matrix.Open(matrix.AWS2022)
	if err != nil {
		return err
	}
	if m, err = m.First(10); err != nil {
		return err
	}

	// One transport a node. On a real network this would be wan.NewTCP.
	net := wan.NewNetwork(wan.NetOptions{Precise: true})
	defer net.Close()
	net.SetOneWay(m.OneWays())
	var nodes []base.NodeID
	for i := range m.Len() {
		nodes = append(nodes, base.NodeID(i+1))
	}
	var comms []*collective.Comm
	for i, id := range nodes {
		tr := net.Join(id, base.RegionID(i+1))
		c, err := collective.New(tr).Join(1, nodes, collective.Options{})
		if err != nil {
			return err
		}
		for j, peer := range nodes {
			tr.SetPeer(peer, "", base.RegionID(j+1))
		}
		if err := tr.Start(); err != nil {
			return err
		}
		defer c.Close()
		comms = append(comms, c)
	}

	// The plan says which nodes aggregate for which, and over which relays. The caller numbers the
	// rounds; from round 2 on they follow the plan.
	p, err := plan.Make(&plan.Facts{Latency: m.OneWays()}, plan.Params{})
	if err != nil {
		return err
	}
	for _, c := range comms {
		if err := c.SetPlan(p, 2); err != nil {
			return err
		}
	}

	for round, name := range []string{1: "flat", 2: "planned"} {
		if round == 0 {
			continue
		}
		before := messages(comms)
		begin := time.Now()
		err := everywhere(comms, func(i int, c *collective.Comm) error {
			all, err := c.AllGather(context.Background(), uint64(round), fmt.Appendf(nil, "greetings from %s", m.Names[i]))
			if err == nil && len(all) != len(nodes) {
				err = fmt.Errorf("%d contributions", len(all))
			}
			return err
		})
		if err != nil {
			return err
		}
		fmt.Printf("AllGather, %s: %v, %d messages\n", name, time.Since(begin).Round(time.Millisecond), messages(comms)-before)
	}

	// Every node learns the sum.
	add := func(a, b []byte) []byte {
		return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(a)+binary.BigEndian.Uint64(b))
	}
	sums := make([]uint64, len(comms))
	err = everywhere(comms, func(i int, c *collective.Comm) error {
		total, err := c.AllReduce(context.Background(), 3, binary.BigEndian.AppendUint64(nil, uint64(i+1)), add)
		if err == nil {
			sums[i] = binary.BigEndian.Uint64(total)
		}
		return err
	})
	fmt.Println("AllReduce:", sums)
	return err
}

// everywhere calls f for each node at once.
func everywhere(comms []*collective.Comm, f func(i int, c *collective.Comm) error) error {
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Go(func() { errs[i] = f(i, c) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func messages(comms []*collective.Comm) (n uint64) {
	for _, c := range comms {
		n += c.Stats().Messages
	}
	return n
}
