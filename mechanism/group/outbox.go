package group

import (
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	// maxOutMsgs and maxOutBytes bound what waits for one peer; raft repeats the rest.
	maxOutMsgs  = 1 << 15
	maxOutBytes = 64 << 20
	// maxBatchBytes closes a RaftBatch; one message may still be larger.
	maxBatchBytes = 512 << 10
	// combinerTurns is how many batches a group's goroutine sends for others
	// before it leaves the rest to a goroutine made for that.
	combinerTurns = 4
)

type outMsg struct {
	g *Group
	m *pb.Message
}

// outbox gathers the raft messages of all groups for one peer. Whoever flushes
// first sends for everybody who queues meanwhile, so batches form under load
// and nothing waits without it.
type outbox struct {
	h      *Host
	to     base.NodeID
	region base.RegionID // not 0: of appends to several nodes of that region

	mu      sync.Mutex
	q       []outMsg
	bytes   int
	sending bool
}

func (o *outbox) put(g *Group, m *pb.Message) bool {
	size := msgSize(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.q) >= maxOutMsgs || o.bytes+size > maxOutBytes {
		return false
	}
	o.q = append(o.q, outMsg{g, m})
	o.bytes += size
	return true
}

func (o *outbox) flush() {
	o.mu.Lock()
	if o.sending || len(o.q) == 0 {
		o.mu.Unlock()
		return
	}
	o.sending = true
	o.mu.Unlock()
	if o.drain(combinerTurns) {
		go o.drain(1 << 30)
	}
}

// drain sends what is queued, until nothing is left or the turns are used up
// (then it returns true and still has the right to send).
func (o *outbox) drain(turns int) bool {
	for ; turns > 0; turns-- {
		o.mu.Lock()
		q := o.q
		if len(q) == 0 {
			o.sending = false
			o.mu.Unlock()
			return false
		}
		o.q, o.bytes = nil, 0
		o.mu.Unlock()
		o.send(q)
	}
	return true
}

func (o *outbox) send(q []outMsg) {
	if o.region != 0 {
		o.sendFan(q)
		return
	}
	o.sendTo(o.to, q)
}

func (o *outbox) sendTo(to base.NodeID, q []outMsg) {
	single := o.h.single.Load() && o.h.opts.Transport.Region(to) != o.h.opts.Transport.Region(o.h.opts.Self)
	batch := &wire.RaftBatch{Groups: make([]uint32, 0, len(q)), Messages: make([][]byte, 0, len(q))}
	size, first := 0, 0
	emit := func(end int) {
		if end == first {
			return
		}
		if err := o.h.opts.Transport.Send(to, wire.KindRaft, batch); err != nil {
			o.h.stats.sendFailed.Add(int64(end - first))
			o.unsent(q[first:end])
		} else {
			o.h.stats.batches.Add(1)
			o.h.stats.messages.Add(int64(end - first))
		}
		first, size = end, 0
		batch = &wire.RaftBatch{}
	}
	for i, x := range q {
		body := o.encode(x)
		addTo(batch, x.g, body)
		if size += len(body); size >= maxBatchBytes || single {
			emit(i + 1)
		}
	}
	emit(len(q))
}

func (o *outbox) encode(x outMsg) []byte {
	body, err := marshalMessage(x.m)
	if err != nil { // a message of ours that cannot be encoded: a bug, not the peer's fault
		o.h.opts.Logger.Error("raft message cannot be encoded", "group", x.g.id, "type", x.m.GetType(), "err", err)
		return nil
	}
	return body
}

func addTo(batch *wire.RaftBatch, g *Group, body []byte) {
	if g.incarnation != 0 && batch.Incarnations == nil {
		batch.Incarnations = make([]uint32, len(batch.Groups))
	}
	if batch.Incarnations != nil {
		batch.Incarnations = append(batch.Incarnations, g.incarnation)
	}
	batch.Groups = append(batch.Groups, uint32(g.id))
	batch.Messages = append(batch.Messages, body)
}

// unsent tells each group once that its appends did not leave, so that raft
// probes instead of waiting for acknowledgements that cannot come.
func (o *outbox) unsent(q []outMsg) {
	type pair struct {
		g  *Group
		to uint64
	}
	var done map[pair]bool
	for _, x := range q {
		p := pair{x.g, x.m.GetTo()}
		if x.m.GetType() != pb.MsgApp || done[p] {
			continue
		}
		if done == nil {
			done = make(map[pair]bool)
		}
		done[p] = true
		g, to := x.g, base.NodeID(p.to)
		g.mb.put(func(in *mail) { in.ctl = append(in.ctl, func() { g.rn.ReportUnreachable(uint64(to)) }) })
	}
}

// round is a tick of the host, or one received batch: heartbeats and their
// answers that arise in it are sent together, when the last group that it woke
// has done its part.
type round struct {
	h    *Host
	peer *outbox // the answers go there; nil: to all
	n    atomic.Int32
}

func (r *round) add() { r.n.Add(1) }

func (r *round) done() {
	switch {
	case r.n.Add(-1) > 0:
	case r.peer != nil:
		r.peer.flush()
	default:
		r.h.flushAll()
	}
}

func msgSize(m *pb.Message) int {
	n := 64 + len(m.Context)
	for _, e := range m.Entries {
		n += 24 + len(e.Data)
	}
	return n
}
