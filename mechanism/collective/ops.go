package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Incomplete is the error of a call whose context ended before everything came.
type Incomplete struct {
	Round   uint64
	Missing []base.NodeID // whose contributions are not here
	Cause   error
}

// Error names the round, the nodes whose contributions are missing, and what to do about them.
func (e *Incomplete) Error() string {
	return fmt.Sprintf("round %d: nothing came from nodes %v (%v); if they are dead, agree on excluding them", e.Round,
		e.Missing, e.Cause)
}

// Unwrap gives errors.Is and errors.As the error that ended the call's context.
func (e *Incomplete) Unwrap() error { return e.Cause }

// AllGather gives every node's data to every node: the result is by index of the
// node, nil for those that are excluded, and for those that are missing if the
// error is [Incomplete].
func (c *Comm) AllGather(ctx context.Context, round uint64, data []byte) ([][]byte, error) {
	r, err := c.call(ctx, round, allGather, 0, [][]byte{data}, nil)
	if r == nil {
		return nil, err
	}
	defer c.mu.Unlock()
	out := make([][]byte, len(c.nodes))
	for i := range out {
		if i == c.self {
			out[i] = data
		} else if !r.out(i) {
			out[i], _ = r.whole(i)
		}
	}
	return out, err
}

// AllToAll sends data[i] to node i, and returns what each node had for this one.
func (c *Comm) AllToAll(ctx context.Context, round uint64, data [][]byte) ([][]byte, error) {
	if len(data) != len(c.nodes) {
		return nil, fmt.Errorf("AllToAll got data for %d nodes; the communicator has %d", len(data), len(c.nodes))
	}
	r, err := c.call(ctx, round, allToAll, 0, data, nil)
	if r == nil {
		return nil, err
	}
	defer c.mu.Unlock()
	out := make([][]byte, len(c.nodes))
	for i := range out {
		if p := r.to(i, c.self); p != nil && !r.out(i) {
			out[i] = p.Body
		}
	}
	return out, err
}

// Gather gives every node's data to the root; the result is nil elsewhere, where
// the call returns as soon as the data is on its way.
func (c *Comm) Gather(ctx context.Context, round uint64, root base.NodeID, data []byte) ([][]byte, error) {
	at, ok := c.index[root]
	if !ok {
		return nil, fmt.Errorf("root %d is not in communicator %d", root, c.id)
	}
	r, err := c.call(ctx, round, gather, at, [][]byte{data}, nil)
	if r == nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if at != c.self {
		return nil, err
	}
	out := make([][]byte, len(c.nodes))
	for i := range out {
		if p := r.to(i, at); p != nil && !r.out(i) {
			out[i] = p.Body
		}
	}
	return out, err
}

// Broadcast gives the root's data to every node; what others pass is ignored.
func (c *Comm) Broadcast(ctx context.Context, round uint64, root base.NodeID, data []byte) ([]byte, error) {
	at, ok := c.index[root]
	if !ok {
		return nil, fmt.Errorf("root %d is not in communicator %d", root, c.id)
	}
	r, err := c.call(ctx, round, broadcast, at, [][]byte{data}, nil)
	if r == nil {
		return nil, err
	}
	defer c.mu.Unlock()
	out, _ := r.whole(at)
	return out, err
}

// AllReduce combines every node's value and gives the result to every node. The
// order and grouping in which values are combined is not fixed, so reduce must be
// associative and commutative; it must not change its arguments. All nodes have the
// same result only if it is so exactly: sums of floats may differ in the last bits.
func (c *Comm) AllReduce(ctx context.Context, round uint64, value []byte, reduce func(a, b []byte) []byte) ([]byte, error) {
	r, err := c.call(ctx, round, allReduce, 0, [][]byte{value}, reduce)
	if r == nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	parts, _ := r.cover(r.everyone())
	return r.combine(parts).Body, nil
}

// call runs a round to its end. If it returns a round, it holds the lock.
func (c *Comm) call(ctx context.Context, num uint64, o op, root int, own [][]byte,
	reduce func(a, b []byte) []byte) (*round, error) {
	c.welcome()
	c.mu.Lock()
	r := c.round(num, o, root)
	var err error
	switch {
	case c.closed:
		err = base.Errorf(base.CodeUnavailable, "communicator %d is closed", c.id)
	case r == nil:
		err = fmt.Errorf("round %d is over on node %d, or too far ahead (the last complete one is %d)", num,
			c.nodes[c.self], c.top)
	case r.started:
		err = fmt.Errorf("round %d was called twice", num)
	case r.op != o || r.root != root:
		err = fmt.Errorf("round %d is another operation on other nodes", num)
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	r.started, r.own, r.reduce = true, own, reduce
	close(r.begin)
	out := r.step()
	c.mu.Unlock()
	c.send(out)
	timer := time.NewTimer(r.patience())
	defer timer.Stop()
	for attempt := 0; ; attempt++ {
		select {
		case <-r.done:
			c.mu.Lock()
			if c.closed {
				c.mu.Unlock()
				return nil, base.Errorf(base.CodeUnavailable, "communicator %d is closed", c.id)
			}
			return r, nil
		case <-ctx.Done():
			c.mu.Lock()
			var miss []base.NodeID
			for _, i := range r.missing() {
				miss = append(miss, c.nodes[i])
			}
			if len(miss) == 0 {
				return r, nil
			}
			r.given = true
			return r, &Incomplete{num, miss, context.Cause(ctx)}
		case <-timer.C:
			r.repair(ctx, attempt)
			timer.Reset(c.opt.Retry)
		}
	}
}
