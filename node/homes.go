package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/node/evacuate"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/node/moments"
	"github.com/godwitdb/godwit/node/shards"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/sql/recorded"
	"github.com/godwitdb/godwit/sql/schema"
)

// homes is the home policy, as the owners of this node use it.
type homes struct {
	*home.Policy
	region func() base.RegionID
	// mayLive reports whether rows of a shard may be at home in a region
	mayLive func(base.ShardID, base.RegionID) bool

	mu  sync.Mutex
	dry []homing.Move // moves that a dry run has only decided, newest last
}

// maxDry bounds the moves that a dry run remembers.
const maxDry = 1000

// Accessed implements homing.Homes.
func (h *homes) Accessed(a homing.Access) homing.Verdict {
	if !h.mayLive(a.Key.Shard(), a.From) {
		return homing.Verdict{} // rows cannot move there
	}
	d := h.Record(home.Access{Key: a.Key, Home: a.Home, From: a.From, Txn: a.Txn, Write: a.Write, Pinned: a.Pinned,
		Changes: a.Changes, At: a.At})
	if d.To == 0 {
		return homing.Verdict{Along: d.Along}
	}
	reason := packReason(h.Policy, a, d.Reason)
	if !d.Move {
		h.mu.Lock()
		if len(h.dry) >= maxDry {
			h.dry = append(h.dry[:0], h.dry[maxDry/2:]...)
		}
		h.dry = append(h.dry, homing.Move{Key: a.Key.Clone(), From: a.Home, To: d.To, TS: a.At, Changes: a.Changes,
			Reason: reason})
		h.mu.Unlock()
		return homing.Verdict{Along: d.Along}
	}
	with := slices.DeleteFunc(slices.Clone(d.With), func(k base.Key) bool { return !h.mayLive(k.Shard(), d.To) })
	return homing.Verdict{To: d.To, With: with, Reason: reason, Along: d.Along}
}

// Moved implements homing.Homes: the old owner's counters go to the new one.
func (h *homes) Moved(m homing.Move) {
	switch h.region() {
	case m.From:
		h.Policy.Moved(m.Key, m.To, m.TS)
	case m.To:
		x, _ := unpackReason(m.Reason)
		h.Import(m.Key, m.To, m.Changes, m.TS, x)
	}
}

// makeHomes makes the policy and gives it to the owners.
func (n *Node) makeHomes(p Parts, dir *directory, oc *owner.Config) error {
	var params home.Params
	if p.Homes != nil {
		params = *p.Homes
	}
	pol, err := home.New(params, p.Seed)
	if err != nil {
		return err
	}
	n.homes = &homes{Policy: pol, region: func() base.RegionID { return dir.Topology().RegionOf(p.Identity.Node) },
		mayLive: func(s base.ShardID, r base.RegionID) bool { return dir.Topology().MayLiveIn(s, r) }}
	oc.Homes = n.homes
	sql := p.SQLListen != "" || p.SQLListener != nil
	n.evacuation = evacuate.Node{
		Living: func(g base.GroupID, row func(base.Key) bool) (int, error) { return view.Living(p.Store, g, row) },
		Mover: func() evacuate.Mover {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.mover == nil {
				return nil
			}
			return n.mover
		},
		Catalog: func() (*schema.Catalog, error) {
			if !sql {
				return nil, nil
			}
			srv, err := n.server()
			if err != nil {
				return nil, err
			}
			return srv.Catalog(), nil
		}}
	oc.Movable = func(k base.Key) bool { return n.canMove(dir.Topology(), sql, k) }
	oc.Whole = func(k base.Key) bool {
		f := n.whole.Load()
		return f != nil && (*f)(k)
	}
	oc.Proposed = func(m homing.Proposal) {
		n.mu.Lock()
		mover := n.mover
		n.mu.Unlock()
		if mover != nil {
			mover.Propose(m)
		}
	}
	return nil
}

// canMove reports whether the policy may move a key. Rows of tables move together with their index
// entries, so only a node that serves SQL, and has its catalog, may move them; where no node serves
// SQL there are no tables.
func (n *Node) canMove(t *base.Topology, sql bool, k base.Key) bool {
	switch {
	case len(t.Regions) < 2:
		return false // there is no other region, so do not count
	case k.Table() == base.PreparedTable:
		return false
	case k.Table().IsSpace():
		return true
	}
	if f := n.movable.Load(); f != nil {
		return (*f)(k)
	}
	return !sql && !slices.ContainsFunc(t.Nodes, func(x base.Node) bool { return x.SQL != "" })
}

// expand adds the index entries that move along with a row.
func (n *Node) expand(ctx context.Context, t kv.Txn, row kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	if srv, err := n.server(); err == nil && !row.Key.Table().IsSpace() {
		return srv.MoveRow(ctx, t, row, to, opts)
	}
	t.Move(row.Key, to, opts)
	return nil
}

// answer answers administrative requests of other nodes.
func (n *Node) answer(name string, body []byte) ([]byte, error) {
	switch name {
	case askMoves:
		return json.Marshal(n.localMoves())
	case askDryMoves:
		return json.Marshal(n.dryMoves())
	case askAdvice:
		return n.advise(body)
	case askCopy:
		return n.mender.answer(body)
	case askEpochs:
		return json.Marshal(epochStatus{n.ID(), n.epochs.Status()})
	case askStatements:
		return json.Marshal(n.localDigests())
	case recorded.Ask:
		return n.localRecording()
	case askShare:
		return json.Marshal(n.share())
	case askWaits:
		return json.Marshal(n.localWaits())
	case askCerts:
		return json.Marshal(n.certs.Ends(n.ID()))
	case moments.AskAll:
		return json.Marshal(n.moments.All())
	case moments.AskNewest:
		return json.Marshal(n.moments.Newest())
	case askUses:
		return json.Marshal(n.localUses())
	case askRowUses:
		return json.Marshal(n.localRowUses(context.Background()))
	case shards.AskName:
		return n.shards.AnswerJSON(body)
	case shards.AskSplits:
		return json.Marshal(n.splitter.Events())
	case askLosses:
		l, err := n.localLosses()
		if err != nil {
			return nil, err
		}
		return json.Marshal(l)
	}
	return nil, nil
}

// moves lists the moves that this region's nodes know of, and those that owners anywhere have
// decided in a dry run, oldest first.
func (n *Node) moves(ctx context.Context) []moveRow {
	out := n.localMoves()
	for _, b := range n.cluster.AskAll(ctx, askMoves, askDryMoves) {
		var more []moveRow
		if json.Unmarshal(b, &more) == nil {
			out = append(out, more...)
		}
	}
	slices.SortFunc(out, func(a, b moveRow) int {
		return cmp.Or(cmp.Compare(a.TS, b.TS), a.Key.Compare(b.Key))
	})
	return slices.CompactFunc(out, func(a, b moveRow) bool { return a.TS == b.TS && a.Dry == b.Dry && bytes.Equal(a.Key, b.Key) })
}

const (
	askMoves    = "moves"
	askDryMoves = "dry-moves"
)

// packReason encodes what is sent with a move: the row's heat for the new owner, then the reason.
func packReason(p *home.Policy, a homing.Access, r home.Reason) []byte {
	x, _ := p.Export(a.Key, a.At)
	text, err := json.Marshal(r)
	if err != nil {
		text = nil // facts that JSON cannot hold are not shown
	}
	return append(x[:], text...)
}

// unpackReason decodes it. The zero values mean that a statement moved the row.
func unpackReason(b []byte) (x home.Summary, r home.Reason) {
	if n := copy(x[:], b); n < len(x) {
		return home.Summary{}, r
	}
	_ = json.Unmarshal(b[len(x):], &r)
	return x, r
}

// moveRow is a move in the form of SHOW GODWIT MOVES, in which nodes also send it.
type moveRow struct {
	Key    base.Key       `json:"key"`
	From   base.RegionID  `json:"from"`
	To     base.RegionID  `json:"to"`
	TS     base.Timestamp `json:"ts"`
	Alone  bool           `json:"alone,omitempty"`
	Bytes  int            `json:"bytes"`
	Dry    bool           `json:"dry,omitempty"`
	Reason []byte         `json:"reason,omitempty"`
}

// moveRows adds moves to rows.
func moveRows(out []moveRow, ms []homing.Move, dry bool) []moveRow {
	for _, m := range ms {
		out = append(out, moveRow{Key: m.Key, From: m.From, To: m.To, TS: m.TS, Alone: m.Alone, Bytes: m.Bytes,
			Dry: dry, Reason: m.Reason})
	}
	return out
}

// dryMoves lists the moves that this node's owners have decided in a dry run.
func (n *Node) dryMoves() []moveRow {
	if n.homes == nil {
		return nil
	}
	n.homes.mu.Lock()
	defer n.homes.mu.Unlock()
	return moveRows(nil, n.homes.dry, true)
}

// localMoves lists the moves that this node's replicas have seen, and those of dryMoves.
func (n *Node) localMoves() []moveRow {
	moves, _ := n.owners.Moves()
	return moveRows(n.dryMoves(), moves, false)
}

// cost says what a move cost: a log entry of its own and a quorum, or only its place in another
// write's entry.
func (m *moveRow) cost() string {
	switch {
	case m.Dry:
		return "none: dry run"
	case m.Alone:
		return fmt.Sprintf("a log entry of %d bytes, in the background or by a statement", m.Bytes)
	}
	return "rode on a write"
}

// trigger says who moved the row and why: as a sentence, and as the facts that decided (JSON, NULL
// if there are none).
func (m *moveRow) trigger(name func(base.RegionID) string) (by, why string, facts any) {
	if m.From == m.To {
		return "statement", "pinned or unpinned", nil
	}
	if len(m.Reason) == 0 {
		return "statement", "asked for by a statement", nil
	}
	_, r := unpackReason(m.Reason)
	text, err := json.Marshal(r)
	if err != nil {
		return "policy", r.Text(name), nil
	}
	return "policy", r.Text(name), string(text)
}

// homeSettings are the policy's parameters as cluster settings.
func (n *Node) homeSettings() knobs.Group {
	read := func(data []byte) (home.Params, error) {
		var p home.Params
		if err := json.Unmarshal(data, &p); err != nil {
			return p, err
		}
		return p, p.Filled().Validate()
	}
	return knobs.Of("home.", home.Defaults(), map[string]string{
		"mode":             "who decides where rows live: hotness, always (every access of another region moves the row), never",
		"dry_run":          "decide and report (SHOW GODWIT MOVES), but move nothing",
		"decay_time":       "a region that leaves a row alone for longer loses half of its heat",
		"read_weight":      "what a read adds to a region's heat; negative: reads are not counted",
		"write_weight":     "what a write adds to a region's heat; negative: writes are not counted",
		"min_heat":         "least heat, and shortest run of accesses, that moves a row",
		"margin":           "how many times hotter than the home a region must be",
		"max_heat":         "heat at which all counters of a row are halved",
		"min_stay":         "how long a row that has moved stays; it doubles with every further move soon after",
		"max_stay":         "longest such stay",
		"prefetch":         "most correlated rows that go along with one; negative: none",
		"lookahead":        "largest distance, in transactions, of accesses that belong together",
		"min_freq":         "accesses after which a row is mined for correlation",
		"rsize":            "rows whose accesses are recorded",
		"mining_rows":      "rows compared at a time",
		"mine_interval":    "longest wait for a mining table to fill up",
		"confidence":       "share of accesses that correlated rows must have together",
		"mine_writes_only": "leave reads out of the mining",
		"memory":           "bytes of all counters of a node",
	}, read, func(p home.Params) error {
		return n.homes.SetParams(p, n.clock.Latest())
	})
}

// belongs is the shard in which a row has to lie by the column of PLACEMENT BY; 0: it is of another
// table, or this node does not know that.
func (n *Node) belongs(key base.Key, row []byte) base.ShardID {
	srv, err := n.server()
	if err != nil {
		return 0
	}
	if snap := srv.Catalog().Loaded(); snap != nil && snap.ByID[key.Table()] != nil {
		return snap.ByID[key.Table()].Belongs(context.Background(), key, row)
	}
	return 0
}
