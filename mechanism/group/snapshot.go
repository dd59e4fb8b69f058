package group

import (
	"context"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Snapshots. A raft snapshot is of the whole shard (store.Export): its versions,
// and the records of its groups as of their applied indexes. One stream can
// bring several groups of the shard forward, if the same node leads them and
// the same follower lacks them.
//
// A stream is a series of Calls: the first one has a header per group (its MsgSnap) and the first
// chunk; then come chunks in any order, and an end. What fits into one chunk is one Call, and takes
// one round trip: while a stream of the shard comes in, the next one waits at the receiver, whole.
// The receiver stages chunks on disk; at the end it steps each
// MsgSnap, and when each group's raft has decided, merges the stage (Import.Finish) with the
// logs of those that accepted reset in the merge's last, atomic batch. Before
// that nothing has changed; a stream that breaks is dropped and sent anew when
// raft asks again.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func chunkCRC(c *wire.SnapshotChunk) uint32 {
	var sum uint32
	for i := range c.Keys {
		sum = crc32.Update(sum, castagnoli, c.Keys[i])
		sum = crc32.Update(sum, castagnoli, c.Values[i])
	}
	for _, h := range c.Heads {
		sum = crc32.Update(sum, castagnoli, h)
	}
	return crc32.Update(sum, castagnoli, c.Raft)
}

type streamKey struct {
	shard base.ShardID
	to    base.NodeID
}

// snapJob is a group waiting for, or riding on, a stream.
type snapJob struct {
	g     *Group
	to    base.NodeID
	index uint64 // raft thinks the follower will have this
}

// snapshots is the host's traffic of them.
type snapshots struct {
	h    *Host
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	id   atomic.Uint64
	pace pace

	mu      sync.Mutex
	queue   []streamKey
	jobs    map[streamKey][]*snapJob // waiting
	riding  map[*snapJob]bool        // under way
	active  map[streamKey]bool
	cancel  map[streamKey]context.CancelCauseFunc // of the streams that have a place
	streams int
	in      map[inKey]*inbound
	shards  map[base.ShardID]bool // with an import under way
	freed   chan struct{}         // closed when a stream that comes in ends, and made anew
}

func newSnapshots(h *Host) *snapshots {
	s := &snapshots{h: h, jobs: map[streamKey][]*snapJob{}, riding: map[*snapJob]bool{}, active: map[streamKey]bool{},
		cancel: map[streamKey]context.CancelCauseFunc{},
		in:     map[inKey]*inbound{}, shards: map[base.ShardID]bool{}, freed: make(chan struct{})}
	s.pace.rate = DefaultSnapshotRate
	s.ctx, s.stop = context.WithCancel(context.Background())
	// Streams of successive lives of a process must differ: a receiver that still holds a part of
	// one would take chunks of the other one for more of it, and merge both copies (STORE-5).
	s.id.Store(rand.Uint64())
	return s
}

func (s *snapshots) close() {
	s.stop()
	s.mu.Lock()
	for _, in := range s.in {
		in.expire.Stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, in := range s.in {
		_ = in.imp.Abort()
		delete(s.in, k)
	}
}

// maxWaiting bounds the streams that wait for their turn.
const maxWaiting = 256

func (s *snapshots) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) >= maxWaiting
}

// needs is the lowest index that a snapshot of the group under way ends at.
func (s *snapshots) needs(g base.GroupID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := ^uint64(0)
	for _, js := range s.jobs {
		for _, j := range js {
			if j.g.id == g {
				low = min(low, j.index)
			}
		}
	}
	for j := range s.riding {
		if j.g.id == g {
			low = min(low, j.index)
		}
	}
	return low
}

// enqueue takes a MsgSnap off raft's hands.
func (s *snapshots) enqueue(g *Group, m *pb.Message) {
	k := streamKey{g.id.Shard(), base.NodeID(m.GetTo())}
	j := &snapJob{g: g, to: k.to, index: m.GetSnapshot().GetMetadata().GetIndex()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	if len(s.jobs[k]) == 0 && s.ahead(k.shard) {
		s.queue = slices.Insert(s.queue, 0, k)
	} else if len(s.jobs[k]) == 0 {
		s.queue = append(s.queue, k)
	}
	s.jobs[k] = append(s.jobs[k], j)
	if s.streams < s.places() {
		s.streams++
		s.wg.Go(s.work)
	}
}

// ahead reports whether streams of a shard do not wait for those of others: the meta shard's, which
// is small. A node that lacks what is in it knows no definition, and serves nothing.
func (s *snapshots) ahead(shard base.ShardID) bool {
	return shard == base.MetaShard && !s.h.opts.MetaWaits
}

// places is how many streams may be under way: one more while a stream of the meta shard is there.
// mu is held.
func (s *snapshots) places() int {
	n := s.h.opts.SnapshotStreams
	if slices.ContainsFunc(s.queue, func(k streamKey) bool { return s.ahead(k.shard) }) {
		return n + 1
	}
	for k := range s.active {
		if s.ahead(k.shard) {
			return n + 1
		}
	}
	return n
}

// taken is how many of the places for other shards than the meta shard are taken by streams that
// come in. mu is held.
func (s *snapshots) taken() (n int) {
	for _, in := range s.in {
		if !s.ahead(in.shard) {
			n++
		}
	}
	return n
}

// work sends streams until none waits.
func (s *snapshots) work() {
	for {
		s.mu.Lock()
		// One stream at a time for a shard and a node: groups that come
		// meanwhile share the next.
		n := slices.IndexFunc(s.queue, func(k streamKey) bool { return !s.active[k] })
		if n < 0 || s.ctx.Err() != nil || s.streams > s.places() {
			s.streams--
			s.mu.Unlock()
			return
		}
		k := s.queue[n]
		s.queue = slices.Delete(s.queue, n, n+1)
		s.active[k] = true
		s.mu.Unlock()
		s.gather()
		s.mu.Lock()
		ctx, cancel := context.WithCancelCause(s.ctx)
		s.cancel[k] = cancel
		jobs := s.jobs[k]
		delete(s.jobs, k)
		for _, j := range jobs {
			s.riding[j] = true
		}
		s.mu.Unlock()
		start := time.Now()
		bytes, err := s.stream(ctx, k, jobs)
		cancel(nil)
		if err != nil {
			s.h.stats.snapFailed.Add(1)
			s.h.opts.Logger.Warn("snapshot not sent", "shard", k.shard, "to", k.to, "groups", groupsOf(jobs), "err", err)
		} else {
			s.h.stats.snapSent.Add(1)
			s.h.stats.snapBytes.Add(bytes)
			s.h.opts.Logger.Info("snapshot sent", "shard", k.shard, "to", k.to, "groups", groupsOf(jobs), "bytes", bytes,
				"took", time.Since(start))
		}
		status := raft.SnapshotFinish
		if err != nil {
			status = raft.SnapshotFailure
		}
		for _, j := range jobs {
			j.g.later(func() { j.g.rn.ReportSnapshot(uint64(j.to), status) })
		}
		s.mu.Lock()
		for _, j := range jobs {
			delete(s.riding, j)
		}
		delete(s.active, k)
		delete(s.cancel, k)
		s.mu.Unlock()
	}
}

// groupsOf names the groups of jobs, each once.
func groupsOf(jobs []*snapJob) (out []base.GroupID) {
	for _, j := range jobs {
		if !slices.Contains(out, j.g.id) {
			out = append(out, j.g.id)
		}
	}
	return out
}

// gatherFor is how long a stream waits for other groups of its shard to share it. Because: a node
// comes back and lacks the logs of all groups of a shard. Their leader, which is one node, learns
// of that within milliseconds, and each stream takes three round trips.
const gatherFor = 50 * time.Millisecond

// gather waits for other groups.
func (s *snapshots) gather() {
	if s.h.opts.LoneSnapshots {
		return
	}
	select {
	case <-time.After(gatherFor):
	case <-s.ctx.Done():
	}
}

var errGaveWay = base.Errorf(base.CodeUnavailable, "its receiver is lost, and others wait for its place")

// giveWay ends streams to lost nodes where others wait for their places. A stream to a node that
// does not answer takes SnapshotTimeout to notice it, and far longer in its last step: that is time
// that nobody else needs otherwise, and the node may come back.
func (s *snapshots) giveWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.h.opts.Transport.Lost
	if s.streams < s.h.opts.SnapshotStreams ||
		!slices.ContainsFunc(s.queue, func(k streamKey) bool { return !s.active[k] && !lost(k.to) }) {
		return
	}
	for k, cancel := range s.cancel {
		if lost(k.to) {
			cancel(errGaveWay)
		}
	}
}

// stream sends one shard to one node, for all jobs.
func (s *snapshots) stream(ctx context.Context, k streamKey, jobs []*snapJob) (int64, error) {
	exp, err := s.h.opts.Store.ExportShard(k.shard)
	if err != nil {
		return 0, err
	}
	defer exp.Close()
	done := map[base.GroupID]bool{}
	var heads []*pb.Message
	var groups []base.GroupID
	for _, j := range jobs {
		if done[j.g.id] {
			continue
		}
		done[j.g.id] = true
		m, err := j.g.snapMessage(ctx, j, exp.Applied[j.g.id.Region()])
		if err != nil {
			return 0, err
		}
		heads, groups = append(heads, m), append(groups, j.g.id)
	}
	return s.send(ctx, k, exp, groups, heads)
}

func (s *snapshots) call(ctx context.Context, to base.NodeID, c *wire.SnapshotChunk, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.Crc = chunkCRC(c)
	ack := new(wire.SnapshotAck)
	if err := s.h.opts.Transport.Call(ctx, to, wire.KindSnapshot, c, ack); err != nil {
		if cause := context.Cause(ctx); cause == errGaveWay {
			return cause
		}
		return err
	}
	if st := ack.Status; st.GetCode() != 0 || st.GetMsg() != "" {
		return base.Errorf(base.Code(st.GetCode()), "%s", st.GetMsg())
	}
	return nil
}

// snapMessage is the MsgSnap that fits an export which has the group's log
// applied up to index.
func (g *Group) snapMessage(ctx context.Context, j *snapJob, index uint64) (m *pb.Message, err error) {
	if e := g.do(ctx, func() {
		if g.state != raft.StateLeader {
			err = g.notLeader(g.lead)
			return
		}
		term, e := g.log.Term(index)
		if e != nil || g.confApplied > index {
			err = base.Errorf(base.CodeUnavailable, "group %v: the snapshot is out of date already; it is made anew", g.id)
			return
		}
		m = snapshotMessage(g, uint64(j.to), g.term, index, term)
	}); e != nil {
		return nil, e
	}
	return m, err
}

// stagedSnapshot is one group's part of a received stream.
type stagedSnapshot struct {
	g       *Group
	m       *pb.Message
	decided chan bool // whether raft took it
	once    sync.Once
	err     error // of the installation
}

func (s *stagedSnapshot) decide(taken bool) { s.once.Do(func() { s.decided <- taken }) }

// stepSnapshot gives raft a snapshot whose content is staged.
func (g *Group) stepSnapshot(s *stagedSnapshot) {
	if g.staged != nil {
		s.decide(false)
		return
	}
	g.collect()
	g.staged = s
	_ = g.rn.Step(s.m)
	g.collect()
	for _, m := range g.appends {
		if !raft.IsEmptySnap(m.GetSnapshot()) {
			return // startAppend decides when the log is at rest
		}
	}
	g.staged = nil
	s.decide(false)
}

// place resets the log to a snapshot, in the batch that ends its merge. It runs
// outside the group's goroutine, which leaves the log alone meanwhile.
func (s *stagedSnapshot) place(b *store.Batch) error {
	md := s.m.GetSnapshot().GetMetadata()
	g := s.g
	if err := g.log.ResetToSnapshot(b, md.GetIndex(), md.GetTerm(), md.GetConfState()); err != nil {
		return err
	}
	if m := g.flights[0].msgs[0]; m.Term != nil {
		return g.log.Append(b, &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: new(md.GetIndex())}, nil)
	}
	return nil
}

// snapshotPlaced goes on from an installed snapshot.
func (g *Group) snapshotPlaced(s *stagedSnapshot) {
	g.staged, g.parked = nil, false
	if s.err != nil {
		g.fail(base.Errorf(base.CodeOf(s.err), "group %v: snapshot cannot be installed: %v", g.id, s.err))
		return
	}
	if m := g.flights[0].msgs[0]; m.Term != nil {
		g.saved = pb.HardState{Term: m.Term, Vote: m.Vote}
	}
	md := s.m.GetSnapshot().GetMetadata()
	index := md.GetIndex()
	g.setConf(md.GetConfState())
	g.confApplied = index
	g.truncateCheck = index
	g.setApplied(index)
	g.sm.SnapshotInstalled(index)
	g.noteLeader() // the leases that it holds were not seen here
	for _, p := range g.pend.takeIf(func(p *proposal) bool { return p.index <= index }) {
		g.answer(p, nil, 0, ambiguous(g, p, "the replica caught up by a snapshot, which does not tell"))
	}
	g.appendDone()
}
