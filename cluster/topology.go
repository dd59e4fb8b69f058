package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/placement"
)

// topologyTable is a system table of the meta shard with one row. The SQL
// catalog's system tables have smaller numbers.
var topologyTable = base.MakeTableID(90, 0)

// TopologyKey is the row that holds the newest topology, once it has changed
// since the cluster was made.
func TopologyKey() base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, topologyTable, 0, 0), 0)
}

const (
	// topologyTimeout bounds a change of the topology, and one attempt to read it.
	topologyTimeout = 20 * time.Second
	// followAgain is the pause before a topology is read that was announced but cannot be seen yet,
	// followFailed the one after an error.
	followAgain  = 50 * time.Millisecond
	followFailed = time.Second
)

// membership is the topology as this node knows it: the nodes and regions of the cluster, where
// replicas are placed, and the addresses of the nodes.
type membership struct {
	self      base.NodeID
	identity  *join.Identity
	transport wan.Transport
	log       *slog.Logger
	save      func(*base.Topology) error
	onNewer   func(*base.Topology) // may be nil
	opened    func() error         // opens the replicas that a new topology places here; set by New
	db        kv.DB                // set by Start

	topo atomic.Pointer[base.Topology]

	setting  base.Turn // one SetTopology at a time; guards the rest
	closed   bool
	acted    atomic.Uint64   // version of the topology by which this node acts; see regions
	epochCtx context.Context // ends when the topology is replaced
	endEpoch context.CancelFunc
	hints    map[base.NodeID]hint

	knows      base.ClusterVersion             // the newest that this build knows
	setVersion func(base.ClusterVersion) error // see Disk; may be nil
	promise    upgrade.Promise                 // guarded by setting
}

// hint is where a node says it is, while the topology has another address.
type hint struct{ addr, instead string }

func newMembership(o *Options) *membership {
	m := &membership{self: o.Self, identity: o.Identity, transport: o.Transport, log: o.Logger,
		save: o.Disk.SaveTopology, onNewer: o.Listeners.OnTopology,
		setting: make(base.Turn, 1), hints: map[base.NodeID]hint{}, knows: o.Knows, setVersion: o.Disk.SetVersion, promise: o.Disk.Promised}
	m.epochCtx, m.endEpoch = context.WithCancel(context.Background())
	first := o.Identity.First
	m.topo.Store(&first)
	if o.Disk.Stored != nil && o.Disk.Stored.Version > first.Version {
		m.topo.Store(o.Disk.Stored)
	}
	m.setPeers(m.topo.Load())
	return m
}

// Topology is the newest one this node knows.
func (m *membership) Topology() *base.Topology { return m.topo.Load() }

// ID names the cluster.
func (m *membership) ID() string { return m.identity.ClusterID }

// close refuses topologies from now on.
func (m *membership) close() {
	m.setting.Lock()
	defer m.setting.Unlock()
	m.closed = true
}

// Change rewrites the topology in a transaction: fn edits a copy, then
// replicas are placed anew. It returns the topology that was written.
func (m *membership) Change(ctx context.Context, fn func(*base.Topology) error) (*base.Topology, error) {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	var next *base.Topology
	needs := func() base.ClusterVersion { return next.ClusterVersion }
	_, err := kv.Run(ctx, m.db, kv.Options{Needs: needs}, func(t kv.Txn) error {
		rows, err := t.Get(ctx, []base.Key{TopologyKey()}, kv.LockExclusive)
		if err != nil {
			return err
		}
		cur := &m.identity.First
		if rows[0].Value != nil {
			if cur, err = decodeTopology(rows[0].Value); err != nil {
				return err
			}
		}
		if next, err = edited(cur, fn); err != nil {
			return err
		}
		b, err := encodeTopology(next)
		if err != nil {
			return err
		}
		t.Put(TopologyKey(), b, 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, m.SetTopology(next)
}

// edited is the topology that follows another one by an edit: replicas are placed by the rule, and
// the version is one more.
func edited(t *base.Topology, fn func(*base.Topology) error) (*base.Topology, error) {
	edit := *t
	edit.Nodes = slices.Clone(t.Nodes)
	edit.Regions = slices.Clone(t.Regions)
	edit.Opening = slices.Clone(t.Opening)
	edit.Later = slices.Clone(t.Later)
	edit.Promotions = slices.Clone(t.Promotions)
	edit.Placements = slices.Clone(t.Placements)
	edit.Own = slices.Clone(t.Own)
	if err := fn(&edit); err != nil {
		return nil, err
	}
	edit = placement.Place(edit)
	if len(edit.AsyncFirst) < edit.Async {
		edit.AsyncFirst = slices.Clone(edit.Replicas[edit.Shards:])
	}
	for _, r := range edit.Opening {
		if !slices.ContainsFunc(edit.Later, func(l base.LaterRegion) bool { return l.Region == r.ID }) {
			edit.Later = append(edit.Later, base.LaterRegion{Region: r.ID, First: slices.Clone(edit.Replicas)})
		}
	}
	edit.Version++
	return &edit, edit.Validate()
}

func encodeTopology(t *base.Topology) ([]byte, error) { return json.Marshal(t) }

func decodeTopology(b []byte) (*base.Topology, error) {
	t := new(base.Topology)
	if err := json.Unmarshal(b, t); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "the stored topology cannot be read: %v", err)
	}
	return t, nil
}

// SetTopology takes a newer topology; older ones are ignored.
func (m *membership) SetTopology(t *base.Topology) error {
	m.setting.Lock()
	defer m.setting.Unlock()
	if t.Version <= m.Topology().Version {
		return nil
	}
	if m.closed {
		return base.Errorf(base.CodeUnavailable, "node %d is stopping; the others have topology %d", m.self, t.Version)
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := m.accept(t); err != nil {
		return err
	}
	if err := m.save(t); err != nil {
		return err
	}
	m.setPeers(t)
	m.topo.Store(t)
	m.endEpoch()
	m.epochCtx, m.endEpoch = context.WithCancel(context.Background())
	m.log.Info("new topology", "version", t.Version, "nodes", len(t.Nodes))
	if m.onNewer != nil {
		m.onNewer(t)
	}
	return m.opened()
}

// epoch is a context that ends when the topology is newer than a version.
func (m *membership) epoch(version uint64) context.Context {
	m.setting.Lock()
	defer m.setting.Unlock()
	if m.Topology().Version > version {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	return m.epochCtx
}

// follow takes each new topology as soon as the meta group's log brings it.
func (m *membership) follow(ctx context.Context) {
	for {
		changed := m.db.MetaChanged()
		read, err := m.readTopology(ctx)
		var retry <-chan time.Time
		if err != nil && ctx.Err() == nil {
			m.log.Warn("could not follow the topology, trying again", "err", err)
			retry = time.After(followFailed)
		} else if newest, _ := m.db.MetaVersion(base.PointSpan(TopologyKey())); err == nil && read < newest {
			// A change is announced when it is applied, but its timestamp may lie ahead of what a
			// reader sees now.
			retry = time.After(followAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-retry:
		}
	}
}

// readTopology takes the topology that the meta shard shows now, and returns its commit timestamp.
func (m *membership) readTopology(ctx context.Context) (base.Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	t := m.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	rows, err := t.Get(ctx, []base.Key{TopologyKey()}, kv.LockNone)
	if err != nil || rows[0].Value == nil {
		return 0, err
	}
	next, err := decodeTopology(rows[0].Value)
	if err != nil {
		return 0, err
	}
	return rows[0].TS, m.SetTopology(next)
}

// setPeers tells the transport where the nodes of a topology are. The caller holds setting, or is
// the only one.
func (m *membership) setPeers(t *base.Topology) {
	for _, n := range t.Nodes {
		if n.Gone || n.ID == m.self || n.Addr == "" {
			continue
		}
		addr := n.Addr
		if h, ok := m.hints[n.ID]; ok && h.instead == addr {
			addr = h.addr
		} else {
			delete(m.hints, n.ID)
		}
		m.transport.SetPeer(n.ID, addr, n.Region)
	}
}

// Moved takes a member's new address before the topology has it: the
// nodes that must agree on that may be on the move themselves. own says that
// the member said so itself; hearsay does not replace that.
func (m *membership) Moved(uuid, addr string, own bool) {
	m.setting.Lock()
	defer m.setting.Unlock()
	n := m.Topology().ByUUID(uuid)
	if n == nil || n.ID == m.self || n.Gone || addr == "" || n.Addr == addr || m.hints[n.ID].addr == addr {
		return
	}
	if _, known := m.hints[n.ID]; known && !own {
		return
	}
	m.hints[n.ID] = hint{addr, n.Addr}
	m.transport.SetPeer(n.ID, addr, n.Region)
}

// Members are the other nodes, at the addresses they were last heard to be at.
func (m *membership) Members() (out []join.Joiner) {
	m.setting.Lock()
	defer m.setting.Unlock()
	t := m.Topology()
	for _, n := range t.Nodes {
		addr := n.Addr
		if h, ok := m.hints[n.ID]; ok {
			addr = h.addr
		}
		if n.ID != m.self && !n.Gone && addr != "" {
			out = append(out, join.Joiner{UUID: n.UUID, Region: t.RegionName(n.Region), Addr: addr, SQL: n.SQL})
		}
	}
	return out
}
