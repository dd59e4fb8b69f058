package group

import (
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Bounds of the raft messages waiting for one group. raft repeats what is
// dropped beyond them.
const (
	maxMailMsgs  = 8192
	maxMailBytes = 32 << 20
)

// mail is what waits for a group's goroutine. Everything of one kind is
// handled together, which is where batching comes from: while the goroutine
// works or its disk syncs, the next batch gathers here.
type mail struct {
	msgs   []*pb.Message
	snaps  []*stagedSnapshot // to be stepped
	placed *stagedSnapshot   // installed
	props  []*proposal
	ctl    []func()
	rounds []*round
	synced int   // so many appends under way are durable now
	err    error // the disk failed
}

type mailbox struct {
	sig chan struct{} // capacity 1: something is there

	mu       sync.Mutex
	in       mail
	spare    mail // the slices of the previous take, for reuse
	msgBytes int
	closed   bool
}

func newMailbox() *mailbox { return &mailbox{sig: make(chan struct{}, 1)} }

func (b *mailbox) wake() {
	select {
	case b.sig <- struct{}{}:
	default:
	}
}

// put runs f on the waiting mail; false after close.
func (b *mailbox) put(f func(*mail)) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	f(&b.in)
	b.mu.Unlock()
	b.wake()
	return true
}

// putProposal queues a proposal but does not wake the group; false after close.
func (b *mailbox) putProposal(p *proposal) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.in.props = append(b.in.props, p)
	return true
}

// putSynced notes that an append is durable, or why it is not, but does not wake the group.
func (b *mailbox) putSynced(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in.synced++; err != nil {
		b.in.err = err
	}
}

// pushed reports whether anything waits that came without waking the group.
func (b *mailbox) pushed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.in.props) > 0 || b.in.synced > 0
}

// proposals reports whether any wait.
func (b *mailbox) proposals() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.in.props) > 0
}

// putMsg queues a raft message of a given encoded size; false if it was dropped.
func (b *mailbox) putMsg(m *pb.Message, size int, r *round) bool {
	b.mu.Lock()
	if b.closed || len(b.in.msgs) >= maxMailMsgs || b.msgBytes+size > maxMailBytes {
		b.mu.Unlock()
		return false
	}
	b.in.msgs = append(b.in.msgs, m)
	b.msgBytes += size
	if r != nil {
		r.add()
		b.in.rounds = append(b.in.rounds, r)
	}
	b.mu.Unlock()
	b.wake()
	return true
}

// take empties the mailbox. What it returns is valid until the next take.
func (b *mailbox) take() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.in
	b.in = b.spare
	b.msgBytes = 0
	b.spare = mail{msgs: out.msgs[:0], props: out.props[:0], ctl: out.ctl[:0], rounds: out.rounds[:0]}
	return out
}

// close refuses further mail and returns what is left.
func (b *mailbox) close() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	out := b.in
	b.in = mail{}
	return out
}
