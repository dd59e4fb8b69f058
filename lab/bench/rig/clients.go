package rig

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/obs"
)

// Client runs one transaction after the other, in a region that may change while it works.
type Client struct {
	home   int // region that it is counted with
	tag    int // group of clients
	Region atomic.Int32
	left   chan struct{} // closed when the region is lost
	next   func(r *rand.Rand) Job
	Done   []Outcome
}

// NewClient makes a client in a region (from 0). tag names the group of clients that it is counted
// with.
func NewClient(region, tag int, next func(r *rand.Rand) Job) *Client {
	c := &Client{home: region, tag: tag, next: next, left: make(chan struct{})}
	c.Region.Store(int32(region))
	return c
}

// Leave moves the client to another region, as if its own were lost. It does not wait for the
// transaction under way.
func (c *Client) Leave(to int) {
	c.Region.Store(int32(to))
	close(c.left)
}

// Shift is a set of clients that work on a cluster, from Work to End.
type Shift struct {
	Cluster *Cluster
	Began   time.Time
	clients []*Client
	stop    context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// Work starts the clients; they work until End.
func (g *Cluster) Work(ctx context.Context, clients []*Client) *Shift {
	ctx, cancel := context.WithCancel(ctx)
	s := &Shift{Cluster: g, Began: time.Now(), clients: clients, stop: cancel}
	for i, c := range clients {
		s.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0x90d))
			for ctx.Err() == nil {
				if err := s.One(ctx, c, r); err != nil && ctx.Err() == nil {
					s.mu.Lock()
					s.err = cmp.Or(s.err, fmt.Errorf("%s, client in region %d: %w", g.name, c.Region.Load()+1, err))
					s.mu.Unlock()
					return
				}
			}
		})
	}
	return s
}

// One runs one transaction of a client and notes its outcome.
func (s *Shift) One(ctx context.Context, c *Client, r *rand.Rand) error {
	region := int(c.Region.Load())
	j := c.next(r)
	var tr obs.Trace
	one, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	left := c.left
	if region != c.home {
		left = nil
	}
	begin := time.Now()
	done := make(chan error, 1)
	s.Cluster.running.Go(func() { done <- s.Cluster.Run(one, region, j, &tr) })
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-left:
		return nil
	}
	x := Outcome{At: time.Since(s.Began), lat: time.Since(begin), hops: tr.Hops(), Writes: j.Writes(), Region: region,
		home: c.home, tag: c.tag}
	x.Coordination = float64(x.hops) / 2
	if x.Writes {
		x.Coordination-- // the log's round trip
	}
	c.Done = append(c.Done, x)
	return nil
}

// End stops the clients. It returns what they did, and the first error that was not due to the end.
func (s *Shift) End() (Outcomes, error) {
	s.stop()
	s.wg.Wait()
	var all Outcomes
	for _, c := range s.clients {
		all = append(all, c.Done...)
		c.Done = nil
	}
	return all, s.err
}
