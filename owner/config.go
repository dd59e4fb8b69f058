package owner

import (
	"context"
	"log/slog"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/tuning"
	"github.com/godwitdb/godwit/wire"
)

// RecordAge is how far an attempt may lie in the past of a group's log before the group refuses it
// for good. A transaction cannot live longer than this.
const RecordAge = state.RecordAge

// Directory says where groups are; package cluster knows it from heartbeats.
type Directory = route.Directory

// Consensus is what a Replica needs of its group; *group.Group satisfies it.
type Consensus interface {
	Propose(ctx context.Context, cmd *wire.Command, term uint64) (result any, index uint64, err error)
	ProposeAsync(cmd *wire.Command, term uint64, done func(result any, index uint64, err error))
	// Enqueue is ProposeAsync that takes effect, at the latest, with the Push after it.
	Enqueue(cmd *wire.Command, term uint64, done func(result any, index uint64, err error))
	// Push may apply entries, and so call the replica, before it returns.
	Push()
	Leader() (base.NodeID, uint64)
	// ProposePlaced is ProposeAsync that also tells where the leader's log has the entry, before it
	// is committed.
	ProposePlaced(cmd *wire.Command, term uint64, placed func(index uint64), done func(result any, index uint64, err error))
	// Stand has this node campaign for the lead, on behalf of the leader of term, once its log ends
	// with index.
	Stand(term uint64, from base.NodeID, index uint64) error
	// Committed tells that the entry of term at index is committed, before the group itself may
	// know.
	Committed(term, index uint64)
	// Deposed tells that another node leads in a later term, whose messages may not have come yet.
	Deposed(term uint64, by base.NodeID)
	// Resigned tells that a node has said that it serves no more in a term.
	Resigned(by base.NodeID, term uint64)
	// PassOn begins to hand the lead of term to another voter that is alive and up to date, each
	// time to the next one: this node cannot serve. It does not wait.
	PassOn(term uint64)
	// Hops is the number of one-way WAN crossings a proposal waits for.
	Hops() int
	// FarCopies is how many copies of a proposal go to other regions.
	FarCopies() int
}

// Transport is what a Set needs of the WAN; package wan's transports satisfy it.
type Transport interface {
	Handle(kind wire.Kind, h wan.Handler)
	Send(to base.NodeID, kind wire.Kind, m wan.Msg) error
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error
}

// Config of all replicas of one node. The first block is required; zero fields of the rest, and of
// the parts, take the defaults given.
type Config struct {
	Self      base.NodeID
	Store     *store.Store
	Clock     *clock.Clock
	Transport Transport
	Directory Directory

	Logger *slog.Logger // nil discards
	// Concurrency is that of the cluster.
	Concurrency base.Concurrency
	// Held knows what other regions hold of asynchronous groups; nil: there are none.
	Held Held
	// Serves, if not nil, is called for every key for which a group answers as its owner, except by
	// a vote. It must be quick.
	Serves func(gauge.Service)

	Facts
	homing.Policy
	Timing
	Bounds
	Breaks
}

// The plain settings are in package tuning, and what a node is told of the cluster around it.
type (
	Held   = tuning.Held
	Facts  = tuning.Facts
	Timing = tuning.Timing
	Bounds = tuning.Bounds
	Breaks = tuning.Breaks
)

// Defaults of bounds that are not worth a knob.
const (
	maxAhead       = 5 * time.Second // most that EnsureClosed promises ahead of now
	maxFinished    = 100_000         // transactions remembered as finished
	finishedMemory = 30 * time.Second
	// how long a lock is waited for before deadlocks are looked for
	detectFirst  = 2 * time.Millisecond
	detectLast   = 100 * time.Millisecond // longest pause between two looks
	tickInterval = tuning.Tick
)

func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Facts.Fill()
	c.Timing.Fill()
	c.Bounds.Fill()
}
