package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/txn"
	"github.com/godwitdb/godwit/txn/bounds"
	"github.com/godwitdb/godwit/txn/mover"
	"github.com/godwitdb/godwit/txn/multimaster"
	"github.com/godwitdb/godwit/wire"
)

// Parts are the things that differ between a real node, a node of a local cluster and one of the
// simulation.
type Parts struct {
	Store     *store.Store
	Identity  *join.Identity
	Transport wan.Transport
	Source    clock.Source
	// SourceName names the clock source for people; nil: "fixed".
	SourceName func() string
	// NoFence lets the node use its clock although it was found wrong, for tests that show what
	// this breaks.
	NoFence bool
	// NoProof has it use its clock before others have confirmed it: for the same.
	NoProof bool
	// FarLeads has it keep its leads where a round trip to most nodes takes long: for the same.
	FarLeads bool
	Log      *slog.Logger
	GCAge    time.Duration
	Seed     uint64
	// Homes are the first parameters of the home policy; nil takes the defaults.
	Homes *home.Params
	// Network says how consensus messages may travel, whatever the cluster settings say; nil: they
	// decide.
	Network *overlay.Params
	// SQLListen is where MySQL clients connect; empty serves no SQL.
	SQLListen string
	// SQLMemory is what all statements may keep in memory, in bytes; 0 is 2 GiB.
	SQLMemory int64
	// SQLListener is used instead of SQLListen if set.
	SQLListener net.Listener
	// SQLTLS is offered to MySQL clients; nil: there is none.
	SQLTLS *tls.Config
	// Backups says where SQL statements may keep backups.
	Backups place.Policy
	// Sinks are where change feeds may be sent, as sink.Policy has them.
	Sinks []string
	// Tune changes the options of the parts before they are made; may be nil.
	Tune func(*group.HostOptions, *owner.Config, *txn.Config)
	// TuneEpochs changes the options of the epochs; may be nil.
	TuneEpochs func(*multimaster.Config)
}

// Assemble wires and starts a node. It takes over the store and the transport, and closes them if
// it fails.
func Assemble(p Parts) (*Node, error) {
	n := newNode(p.Log)
	n.closeLast(p.Store.Close)
	if err := n.assemble(p); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// assembly is the state that is needed only while a node is put together.
type assembly struct {
	*Node
	Parts
	dir     *directory    // the cluster, which is made after the parts that need it
	steady  *clock.Steady // the clock's source; nil with NoFence
	stored  *base.Topology
	promise upgrade.Promise
	founded bool // the groups of this founding node have begun in an earlier life

	groups group.HostOptions
	owning owner.Config
	gate   txn.Config
}

// assemble puts the node together and starts it, from the bottom up: network and clock, groups and
// owners, cluster, gateway, SQL.
func (n *Node) assemble(p Parts) error {
	a := &assembly{Node: n, Parts: p, dir: &directory{}}
	a.connect()
	for _, step := range []func() error{a.load, a.configure, a.makeOwners, a.makeCluster, a.startOwners} {
		if err := step(); err != nil {
			return err
		}
	}
	a.startGateway()
	if p.SQLListen == "" && p.SQLListener == nil {
		close(n.ready)
		return nil
	}
	n.background.Go(func() { n.serveSQL(p) })
	return nil
}

// connect takes over the network, the store and the clock.
func (a *assembly) connect() {
	n := a.Node
	over := overlay.New(overlay.Options{Transport: a.Transport, Nodes: a.dir.liveNodes, Peers: a.dir.members,
		RTT: a.dir.between, MayPass: a.dir.mayPass, Opened: n.peerReached, Logger: a.Log})
	over.SetParams(networkDefaults.overlay())
	if a.Network != nil {
		over.SetParams(*a.Network)
		n.networkGiven = true
	}
	a.Transport = over
	src := a.Source
	if !a.NoFence {
		a.steady = clock.NewSteady(src)
		src = a.steady
	}
	n.mu.Lock()
	n.gcAge = cmp.Or(a.GCAge, 10*time.Minute) // as owners take it
	n.over, n.store, n.ident, n.trans, n.clock = over, a.Store, a.Identity, a.Transport, clock.New(src)
	n.mu.Unlock()
	n.closeFirst(a.Transport.Close)
}

// load reads the records that the node wrote in earlier lives.
func (a *assembly) load() (err error) {
	if a.stored, err = storedTopology(a.Store); err != nil {
		return err
	}
	if a.promise, err = agreeOnFormat(a.Store, a.Identity, a.stored); err != nil {
		return err
	}
	_, err = loadJSON(a.Store, recFounded, &a.founded)
	return err
}

// configure makes the options of groups, owners and gateway. The cluster does not exist yet, so the
// options refer to it by functions.
func (a *assembly) configure() error {
	n, dir := a.Node, a.dir
	a.groups = group.HostOptions{Self: a.Identity.Node, Store: a.Store, Transport: a.Transport, Logger: a.Log,
		Fatal:    n.groupFailed,
		Restored: func(s base.ShardID, from base.NodeID) { n.mender.restored(s, from) },
		HandTo: func(g base.GroupID) base.NodeID {
			if dir.Cluster == nil {
				return 0
			}
			return dir.HandTo(g)
		},
		Fit:   func(id base.NodeID) bool { return dir.Cluster == nil || dir.Fit(id) },
		Fresh: func(ctx context.Context, g base.GroupID, id base.NodeID) bool { return dir.Fresh(ctx, g, id) }}
	a.owning = owner.Config{Self: a.Identity.Node, Store: a.Store, Clock: n.clock, Transport: a.Transport,
		Directory: dir, Logger: a.Log,
		Concurrency: a.Identity.First.Concurrency, Held: dir, Timing: owner.Timing{GCAge: a.GCAge},
		Facts: owner.Facts{
			Alone:     func() bool { return dir.Alone() },
			Ahead:     func() time.Duration { return dir.MetaLead() },
			Hold:      func() time.Duration { return dir.CatalogHold() },
			Groups:    func() []base.GroupID { return dir.Topology().Groups() },
			Gone:      func(n base.NodeID, since time.Time) bool { return dir.Gone(n, since) },
			Lost:      a.Transport.Lost,
			QuorumRTT: func(g base.GroupID) time.Duration { return dir.QuorumRTT(g) },
			Farthest:  func() (path, trip time.Duration) { return dir.FarthestPath(), dir.Farthest() },
			Grace:     func(to base.NodeID, again bool) time.Duration { return dir.Grace(to, again) },
			Every:     func(g base.GroupID) time.Duration { return dir.Every(g) },
			Keep:      n.holds.keep,
			MayLive:   func(s base.ShardID, r base.RegionID) bool { return dir.Topology().MayLiveIn(s, r) },
			HomeIn:    func(s base.ShardID, r base.RegionID) base.RegionID { return dir.Topology().HomeIn(s, r) },
			Region:    func() base.RegionID { return dir.Topology().RegionOf(a.Identity.Node) },
		}}
	if err := n.makeHomes(a.Parts, dir, &a.owning); err != nil {
		return err
	}
	a.gate = txn.Config{Self: a.Identity.Node, Store: a.Store, Transport: a.Transport, Clock: n.clock, Directory: dir, Logger: a.Log,
		Topology: func() *base.Topology { return dir.Topology() },
		Reads: txn.ReadConfig{
			RTT:  func(n base.NodeID) time.Duration { return dir.RTT(n) },
			Want: func() { dir.Want() },
			Replica: func(s base.ShardID, ts base.Timestamp, not base.NodeID) base.NodeID {
				return dir.ReplicaFor(s, ts, not)
			},
			Answered: func(n base.NodeID, took time.Duration, err error) { dir.Answered(n, took, err) },
		},
		Commits: txn.CommitConfig{
			Alone: func() bool { return dir.Alone() },
			Lead:  func() time.Duration { return dir.CommitLead() },
			Done:  func(crossed bool) { n.tier.Committed(crossed, time.Now()) },
		}}
	if a.Tune != nil {
		a.Tune(&a.groups, &a.owning, &a.gate)
	}
	return nil
}

// makeOwners makes the host of the groups and the owners above it.
func (a *assembly) makeOwners() error {
	n := a.Node
	host, err := group.NewHost(a.groups)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.host = host
	n.mu.Unlock()
	n.owners = owner.NewSet(a.owning)
	n.clock.Wait(n.owners)
	n.reps = &replicas{self: a.Identity.Node, set: n.owners, host: n.host, dir: a.dir, store: a.Store, left: map[base.ShardID]bool{},
		shut: map[base.ShardID]bool{}, mu: make(base.Turn, 1)}
	return nil
}

// makeCluster makes the cluster and opens the replicas that this node holds.
func (a *assembly) makeCluster() error {
	n := a.Node
	c := cluster.New(a.clusterOptions())
	n.mu.Lock()
	n.cluster, a.dir.Cluster = c, c
	n.mu.Unlock()
	n.closeFirst(func() error { n.owners.Close(); return nil }, n.host.Close)
	if err := n.cluster.OpenFirst(); err != nil {
		return err
	}
	if a.founded {
		return nil
	}
	return saveJSON(a.Store, recFounded, true)
}

func (a *assembly) clusterOptions() cluster.Options {
	n := a.Node
	return cluster.Options{
		Self: a.Identity.Node, Knows: a.Store.Knows(), Identity: a.Identity, Transport: a.Transport, Clock: n.clock, Replicas: n.reps,
		Paths: n.over, Logger: a.Log,
		Disk: cluster.Disk{
			Founding:     a.Identity.Founding && !a.founded,
			Found:        a.once,
			Stored:       a.stored,
			SaveTopology: func(t *base.Topology) error { return saveJSON(a.Store, recTopology, t) },
			Promised:     a.promise,
			Promise:      func(p upgrade.Promise) error { return keepPromise(a.Store, p) },
			SetVersion:   func(v base.ClusterVersion) error { return setFormat(a.Store, v) },
		},
		Listeners: cluster.Listeners{
			OnSilent: n.PeerDown,
			OnBack:   n.host.OnPeerBack, OnLate: n.host.OnPeerLate,
			OnGone: func() {
				n.fail(base.Errorf(base.CodeInvalid, "node %d was decommissioned and holds no replica any more: "+
					"its process ends for good and its store can be deleted; a node with an empty store may join "+
					"in its place", a.Identity.Node))
			},
		},
		Process: cluster.Process{Describe: n.describe, Answer: n.answer, Load: n.load,
			Evacuate: n.evacuation.Rows, Bound: n.evacuation.Bound,
			RowsStay: func() bool { return n.homes.Params().Mode == home.Never }},
		Vitals: cluster.Vitals{Syncs: n.syncs, Damage: n.mender.damage, Mended: n.mender.past},
		Trust: cluster.Trust{Steady: a.steady, SourceName: a.SourceName, NoFence: a.NoFence, NoProof: a.NoProof,
			FarLeads: a.FarLeads},
	}
}

// once calls found unless a record says that it was called in an earlier life.
func (a *assembly) once(record string, found func() error) error {
	var done bool
	if _, err := loadJSON(a.Store, record, &done); err != nil || done {
		return err
	}
	if err := found(); err != nil {
		return err
	}
	return saveJSON(a.Store, record, true)
}

// startOwners makes the node take part in its groups.
func (a *assembly) startOwners() error {
	n := a.Node
	if err := n.makeEpochs(a.Parts); err != nil {
		return err
	}
	a.Transport.Handle(wire.KindForward, n.executeForwarded)
	a.Transport.Handle(wire.KindServe, n.serve)
	a.gate.Bounds = bounds.Listen(a.Transport)
	if err := a.Transport.Start(); err != nil {
		return err
	}
	if err := n.host.Start(); err != nil {
		return err
	}
	n.owners.Start()
	return nil
}

// startGateway starts transactions, and the cluster's own work, which uses them.
func (a *assembly) startGateway() {
	n := a.Node
	a.gate.Owners = n.owners
	a.gate.Region = n.cluster.Topology().RegionOf(a.Identity.Node)
	n.db = txn.New(a.gate)
	n.gateway.Store(n.db)
	n.both = multimaster.NewDB(n.db, n.epochs)
	n.closeFirst(func() error { n.db.Close(); return nil })
	n.mu.Lock()
	n.mover = mover.New(n.db, &n.db.Stats().Moved, n.expand)
	n.mu.Unlock()
	n.closeFirst(func() error { n.mover.Close(); return nil })
	n.cluster.Start(n.db)
	n.closeFirst(func() error { n.cluster.Close(); return nil })
	n.startEpochs()
	n.startHolds()
	n.startMoments()
	n.untilClosed(n.shards.Run)
	n.untilClosed(n.splitter.Run)
	n.startMender()
}
