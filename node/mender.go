package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
)

// A mender repairs what is damaged of this node's store, from other nodes. The node leads nothing
// meanwhile (package health): first the leads go, then the groups of the damaged shards are closed,
// what is damaged leaves the tables (store.Quarantine), and a node that has a good copy is asked to
// send it.
//
//	well --damaged block read--> leads leave --> quarantine --> fetching from a node --> well

const (
	menderEvery = 200 * time.Millisecond
	// leadsLeave is how long the mender waits for leads to be handed over before it closes groups.
	leadsLeave = 2 * time.Second
	// copyWithin is how long a copy may take to arrive once a node has agreed to send it, for each
	// attempt; the next one may be sent by another node.
	copyWithin = 2 * time.Minute
	// menderPause follows an attempt that failed. surveyPause follows one that found nothing to
	// repair; it is longer, because a survey reads all tables.
	menderPause = 2 * time.Second
	surveyPause = time.Minute
)

// askCopy asks a node for a copy of a shard.
const askCopy = "copy"

// copyRequest is the question.
type copyRequest struct {
	To    base.NodeID             `json:"to"`
	Shard base.ShardID            `json:"shard"`
	Least map[base.GroupID]uint64 `json:"least"`
}

var errNothingFound = errors.New("no table is damaged, so nothing can be fetched in its place; replace the node if this goes on")

type mender struct {
	n     *Node
	done  chan struct{}
	since time.Time // when damage was found; used by run alone

	mu     sync.Mutex
	state  string        // what is being done, or why it fails
	mended []string      // what has been repaired, the newest last
	failed []failedGroup // groups that have stopped since they could not read
	whys   map[base.ShardID]string
}

// failedGroup is a replica that has stopped.
type failedGroup struct {
	id  base.GroupID
	grp *group.Group // nil: it was closed already
	err error
}

func (n *Node) startMender() {
	n.background.Go(n.mender.run)
	n.closeFirst(func() error { // it uses the store, which is closed next
		n.mender.stop()
		return nil
	})
}

func newMender(n *Node) *mender {
	return &mender{n: n, whys: map[base.ShardID]string{}, done: make(chan struct{})}
}

// run looks for damage until the node stops.
func (m *mender) run() {
	defer close(m.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-m.n.stopc:
			cancel()
		case <-ctx.Done():
		}
	}()
	for pause := menderEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = menderEvery
		m.n.noteRoom()
		if err := m.step(ctx); err != nil && ctx.Err() == nil {
			m.n.log.Error("the damaged store cannot be repaired yet", "err", err)
			m.say(err.Error())
			if pause = menderPause; errors.Is(err, errNothingFound) {
				pause = surveyPause
			}
		}
	}
}

func (m *mender) stop() { <-m.done }

// step does what can be done now.
func (m *mender) step(ctx context.Context) error {
	if err := m.n.store.Err(); err != nil {
		if m.since.IsZero() {
			m.since = time.Now()
			m.n.log.Error("the store is damaged: leads leave this node, and it is repaired from others", "err", err)
		}
		if err := m.quarantine(ctx, err); err != nil {
			return err
		}
	}
	wanted := m.n.store.Wanted()
	if len(wanted) == 0 {
		m.endIfStuck()
		m.since = time.Time{}
		m.say("")
		return nil
	}
	for _, w := range wanted {
		if err := m.fetch(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// quarantine takes what is damaged out of the store.
func (m *mender) quarantine(ctx context.Context, found error) error {
	v, err := m.n.store.Survey()
	switch {
	case err != nil:
		return err
	case v.Empty():
		m.endIfStuck()
		return fmt.Errorf("%w: %w", errNothingFound, found)
	}
	m.n.log.Error("damaged files: what they held is fetched from other nodes", "files", v.Files, "shards", v.Shards,
		"records of the node", v.Local)
	m.say("damaged: " + strings.Join(v.Files, ", "))
	for end := time.Now().Add(leadsLeave); m.leads(v.Shards) && time.Now().Before(end) && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(menderEvery / 4):
		}
	}
	if slices.Contains(v.Shards, base.EpochShard) {
		if err := m.n.epochs.Discard(found); err != nil {
			return err
		}
	}
	if err := m.n.reps.close(v.Shards); err != nil {
		return err
	}
	if err := m.n.store.Quarantine(v); err != nil {
		return err
	}
	m.n.reps.reopen(v.Shards)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.n.store.Wanted() {
		m.whys[w.Shard] = w.Why
	}
	return nil
}

// leads reports whether this node leads a group of one of the shards.
func (m *mender) leads(shards []base.ShardID) bool {
	return slices.ContainsFunc(m.n.reps.Held(), func(g base.GroupID) bool {
		grp := m.n.reps.Group(g)
		if grp == nil || !slices.Contains(shards, g.Shard()) {
			return false
		}
		_, leads := grp.Leads()
		return leads
	})
}

// groupFailed is told of a replica that has stopped, maybe after it was closed. One that could not
// read may be opened again with another node's copy.
func (n *Node) groupFailed(g base.GroupID, err error) {
	if base.CodeOf(err) != base.CodeCorrupt {
		n.fail(fmt.Errorf("group %v: %w", g, err))
		return
	}
	n.mender.mu.Lock()
	defer n.mender.mu.Unlock()
	n.mender.failed = append(n.mender.failed, failedGroup{g, n.host.Group(g), err})
}

// endIfStuck ends the process if a replica has stopped that nothing will open again.
func (m *mender) endIfStuck() {
	m.mu.Lock()
	failed := m.failed
	m.failed = nil
	m.mu.Unlock()
	for _, f := range failed {
		if f.grp != nil && m.n.host.Group(f.id) == f.grp {
			m.n.fail(fmt.Errorf("group %v: %w", f.id, f.err))
		}
	}
}

// fetch asks one node after the other to send a shard, until it is here.
func (m *mender) fetch(ctx context.Context, w store.Wanted) error {
	if w.Shard == base.EpochShard {
		return m.n.epochs.Discard(base.Errorf(base.CodeCorrupt, "%s", w.Why))
	}
	var whys []string
	for _, from := range m.sources(w.Shard) {
		m.say(fmt.Sprintf("%s; shard %d is fetched from node %d", w.Why, w.Shard, from))
		if err := m.fetchFrom(ctx, from, w); err != nil {
			whys = append(whys, fmt.Sprintf("node %d: %v", from, err))
			continue
		}
		return m.n.cluster.OpenReplicas()
	}
	if len(whys) == 0 {
		whys = append(whys, "no other node that lives holds it")
	}
	return base.Errorf(base.CodeUnavailable, "%s; shard %d cannot be fetched (%s): start the nodes that hold it, or, "+
		"if there is no good copy, restore it from a backup", w.Why, w.Shard, strings.Join(whys, "; "))
}

// sources are the live nodes that hold a shard, the nearest first.
func (m *mender) sources(s base.ShardID) []base.NodeID {
	c := m.n.cluster
	var out []base.NodeID
	for _, n := range c.Topology().ShardReplicas(s) {
		if n != m.n.ID() && c.Live(n) {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b base.NodeID) int { return int(c.RTT(a) - c.RTT(b)) })
	return out
}

func (m *mender) fetchFrom(ctx context.Context, from base.NodeID, w store.Wanted) error {
	body, err := json.Marshal(copyRequest{m.n.ID(), w.Shard, w.Least})
	if err != nil {
		return err
	}
	if _, err := m.n.cluster.Ask(ctx, from, askCopy, body); err != nil {
		return err
	}
	for end := time.Now().Add(copyWithin); m.n.store.Fetching(w.Shard); {
		if time.Now().After(end) {
			return base.Errorf(base.CodeUnavailable, "its copy has not arrived within %v", copyWithin)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(menderEvery / 4):
		}
	}
	return nil
}

// answer has this node send a copy of a shard.
func (m *mender) answer(body []byte) ([]byte, error) {
	var q copyRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed request: %v", err)
	}
	if err := m.n.host.SendShard(q.To, q.Shard, q.Least); err != nil {
		return nil, err
	}
	return []byte("true"), nil
}

// restored is told of a shard that has arrived.
func (m *mender) restored(s base.ShardID, from base.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const most = 4 // so many are remembered
	m.mended = append(m.mended, fmt.Sprintf("shard %d was repaired from node %d at %s (%s)", s, from,
		time.Now().UTC().Format(time.TimeOnly), m.whys[s]))
	if len(m.mended) > most {
		m.mended = m.mended[len(m.mended)-most:]
	}
}

func (m *mender) say(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
}

// damage is why the store cannot be trusted now; nil if it can.
func (m *mender) damage() error {
	m.mu.Lock()
	state := m.state
	m.mu.Unlock()
	err := m.n.store.Err()
	if state != "" && (err != nil || len(m.n.store.Wanted()) > 0) {
		return base.Errorf(base.CodeCorrupt, "%s", state)
	}
	if err == nil && len(m.n.store.Wanted()) > 0 {
		return base.Errorf(base.CodeCorrupt, "shards are to be fetched from other nodes")
	}
	return err
}

// past is what has been repaired since the process began.
func (m *mender) past() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.mended, "; ")
}
