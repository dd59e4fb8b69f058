package owner_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/wire"
)

// TestScripts runs the stories of testdata, each in virtual time. The language is that of the maps
// requests, controls and looks: one directive is one step. A request that is not answered after a
// millisecond goes on; its answer is shown by the step in which it comes. Times are milliseconds
// since the cluster was made; "+20" and "-20" count from now. Of errors only the kind is shown,
// since their texts are for people.
//
// go test ./owner -run TestScripts -rewrite writes what happens into the files.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		inBubble(t, func(t *testing.T) {
			s := &script{}
			defer s.end()
			datadriven.RunTest(t, path, s.run)
		})
	})
}

// inBubble runs a test in virtual time. Pebble keeps channels in pools: two collections empty them,
// so that none goes into the bubble, nor out of it.
func inBubble(t *testing.T, f func(t *testing.T)) {
	empty := func() { runtime.GC(); runtime.GC() }
	empty()
	defer empty()
	synctest.Test(t, f)
}

// script is one file while it is run.
type script struct {
	c    *cluster
	t    *testing.T
	d    *datadriven.TestData
	args []datadriven.CmdArg
	txns map[string]*txn

	mu      sync.Mutex
	pending []*request
}

// txn is what a coordinator would know of a transaction.
type txn struct {
	name  string
	meta  wire.TxnMeta
	id    base.TxnID
	terms map[base.GroupID]uint64 // of its locks
	voted base.Timestamp          // largest lower bound of its votes
}

// request is one that a step has sent.
type request struct {
	label  string
	cancel context.CancelFunc
	answer string
	over   bool
}

func (s *script) end() {
	if s.c == nil {
		return
	}
	for _, r := range s.pending {
		r.cancel()
	}
	s.c.close()
	synctest.Wait()
	s.c, s.pending = nil, nil
}

// send runs a request and waits for it for a millisecond.
func (s *script) send(label string, f func(ctx context.Context) string) string {
	ctx, cancel := context.WithCancel(context.Background())
	r := &request{label: label, cancel: cancel}
	s.pending = append(s.pending, r)
	go func() {
		out := f(ctx)
		s.mu.Lock()
		r.answer, r.over = out, true
		s.mu.Unlock()
	}()
	synctest.Wait()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.over {
		return "waits\n"
	}
	s.pending = s.pending[:len(s.pending)-1]
	cancel()
	return r.answer + "\n"
}

// late are the answers that came since the last step, in the order of their requests.
func (s *script) late() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	s.pending = slices.DeleteFunc(s.pending, func(r *request) bool {
		if r.over {
			fmt.Fprintf(&b, "%s: %s\n", r.label, r.answer)
			r.cancel()
		}
		return r.over
	})
	return b.String()
}

// ---- arguments ----

// arg takes an option out of the step's arguments.
func (s *script) arg(name string) (string, bool) {
	for i, a := range s.args {
		if a.Key == name {
			s.args = slices.Delete(s.args, i, i+1)
			return strings.Join(a.Vals, ","), true
		}
	}
	return "", false
}

func (s *script) flag(name string) bool {
	_, ok := s.arg(name)
	return ok
}

func (s *script) list(name string) []string {
	v, ok := s.arg(name)
	if !ok {
		return nil
	}
	return strings.Split(v, ",")
}

func (s *script) number(name string, def int) int {
	v, ok := s.arg(name)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		s.d.Fatalf(s.t, "%s=%s is no number", name, v)
	}
	return n
}

// word takes the first argument.
func (s *script) word() string {
	if len(s.args) == 0 {
		s.d.Fatalf(s.t, "an argument is missing")
	}
	w := s.args[0].Key
	s.args = s.args[1:]
	return w
}

func (s *script) nodeOf(w string) *node {
	i, err := strconv.Atoi(strings.TrimPrefix(w, "n"))
	if err != nil || s.c.nodes[base.NodeID(i)] == nil {
		s.d.Fatalf(s.t, "%s is no node", w)
	}
	return s.c.nodes[base.NodeID(i)]
}

func (s *script) groupOf(w string) base.GroupID {
	if w == "meta" {
		return base.MetaGroup
	}
	i, err := strconv.Atoi(strings.TrimPrefix(w, "g"))
	if err != nil || i < 1 || i > s.c.opts.regions {
		s.d.Fatalf(s.t, "%s is no group", w)
	}
	return base.DataGroup(1, base.RegionID(i))
}

// group is the option of that name; g1 if there is none.
func (s *script) group() base.GroupID {
	if w, ok := s.arg("group"); ok {
		return s.groupOf(w)
	}
	return base.DataGroup(1, 1)
}

func (s *script) logbook(w string) *logbook { return s.c.logs[s.groupOf(w)] }

// span reads "20", "1.5" or "3s" as a duration.
func (s *script) span(w string) time.Duration {
	if d, err := time.ParseDuration(w); err == nil && w != "0" {
		return d
	}
	f, err := strconv.ParseFloat(w, 64)
	if err != nil {
		s.d.Fatalf(s.t, "%s is no time", w)
	}
	return time.Duration(f * float64(time.Millisecond))
}

// moment is the option of that name; 0 if there is none.
func (s *script) moment(name string) base.Timestamp {
	w, ok := s.arg(name)
	if !ok {
		return 0
	}
	switch {
	case w == "now":
		return base.FromTime(time.Now())
	case strings.HasPrefix(w, "+"):
		return base.FromTime(time.Now()).Add(s.span(w[1:]))
	case strings.HasPrefix(w, "-"):
		return base.FromTime(time.Now()).Add(-s.span(w[1:]))
	}
	return s.c.zero.Add(s.span(w))
}

// rangeOf reads a key, or two with a dash.
func rangeOf(w string) *wire.Span {
	from, to, ok := strings.Cut(w, "-")
	if !ok {
		return &wire.Span{Start: keyOf(from)}
	}
	if i := strings.Index(from, "/"); i >= 0 {
		to = from[:i+1] + to
	}
	return &wire.Span{Start: keyOf(from), End: keyOf(to)}
}

func spansOf(ws []string) (out []*wire.Span) {
	for _, w := range ws {
		out = append(out, rangeOf(w))
	}
	return out
}

// keys takes the rest of the arguments for keys and ranges.
func (s *script) keys() []*wire.Span {
	var out []*wire.Span
	for _, a := range s.args {
		if len(a.Vals) > 0 {
			s.d.Fatalf(s.t, "what is %s=%s?", a.Key, strings.Join(a.Vals, ","))
		}
		out = append(out, rangeOf(a.Key))
	}
	s.args = nil
	return out
}

// writes takes the rest of the arguments for writes: a=1 puts, insert=(a:1), delete=(a), move=(a:2)
// and fence=(a:2) name a region, take=(a:2) moves the row with its write, append=(a:x:5) is a patch
// that makes a row of at most five bytes, home=(a:2) says where a new row is at home, soft=(a)
// leaves it where it is rather than wait, pin=(a), unpin=(a), follow=(a) lets the policy move it.
func (s *script) writes() (out []*wire.Write) {
	of := func(k string) *wire.Write {
		for _, w := range out {
			if string(w.Key) == string(keyOf(k)) {
				return w
			}
		}
		w := &wire.Write{Key: keyOf(k)}
		out = append(out, w)
		return w
	}
	region := func(v string) uint32 {
		n, err := strconv.Atoi(v)
		if err != nil {
			s.d.Fatalf(s.t, "%s is no region", v)
		}
		return uint32(n)
	}
	kinds := map[string]wire.WriteKind{"insert": wire.WriteKind_INSERT, "delete": wire.WriteKind_DELETE, "move": wire.WriteKind_MOVE, "fence": wire.WriteKind_FENCE}
	for _, a := range s.args {
		kind, named := kinds[a.Key]
		for _, v := range a.Vals {
			k, val, _ := strings.Cut(v, ":")
			switch a.Key {
			case "insert":
				w := of(k)
				w.Kind, w.Value = kind, []byte(val)
			case "delete":
				of(k).Kind = kind
			case "move":
				if of(k).Kind = kind; val != "" {
					of(k).Move = region(val)
				}
			case "fence":
				of(k).Kind, of(k).Home = kind, region(val)
			case "take":
				of(k).Move = region(val)
			case "home":
				of(k).Home = region(val)
			case "soft":
				of(k).Soft = true
			case "pin":
				of(k).Pin = wire.Pin_PIN
			case "unpin":
				of(k).Pin = wire.Pin_UNPIN
			case "follow":
				of(k).Follow = true
			case "append":
				what, most, bounded := strings.Cut(val, ":")
				p := patch.Append([]byte(what))
				if bounded {
					p.Ops[0].Most = uint64(region(most))
				}
				of(k).Patch = p
			default:
				if named || len(a.Vals) != 1 {
					s.d.Fatalf(s.t, "what is %s?", a.Key)
				}
				of(a.Key).Value = []byte(v)
			}
		}
		if len(a.Vals) == 0 {
			s.d.Fatalf(s.t, "what is %s?", a.Key)
		}
	}
	s.args = nil
	return out
}

func (s *script) txn() *txn { return s.txnOf(s.word()) }

// txnOf finds a transaction by name, or begins it now.
func (s *script) txnOf(name string) *txn {
	x := s.txns[name]
	if x == nil {
		x = &txn{name: name, terms: map[base.GroupID]uint64{}}
		start := base.FromTime(time.Now())
		x.id = base.MakeTxnID(start, 9, uint32(len(s.txns)+1))
		x.meta = wire.TxnMeta{Id: x.id[:], Gateway: 9, GatewayRegion: 1}
		s.txns[name] = x
	}
	return x
}

func (s *script) txnName(id base.TxnID) string {
	for _, x := range s.txns {
		if x.id == id {
			return x.name
		}
	}
	return "somebody"
}

// replica is the one that a request goes to: on=n2, else that of the group's leader.
func (s *script) replica(g base.GroupID) *owner.Replica {
	id := directory{s.c}.Leader(g)
	if w, ok := s.arg("on"); ok {
		id = s.nodeOf(w).id
	}
	n := s.c.nodes[id]
	if n == nil || n.running.Load() == nil {
		s.d.Fatalf(s.t, "node %d is down", id)
	}
	return n.set().Replica(g)
}

// ---- what is shown ----

func (s *script) status(st *wire.Status) string {
	err := owner.ErrorOf(st)
	if err == nil {
		return "ok"
	}
	e := err.(*base.Error)
	out := e.Code.String()
	if e.Node != 0 {
		out += fmt.Sprintf(", ask n%d", e.Node)
	}
	if len(e.Key) > 0 {
		out += ", key " + keyName(e.Key)
	}
	if e.After != 0 {
		out += ", not before " + s.c.at(e.After)
	}
	return out
}

func (s *script) failed(err error) string {
	return s.status(&wire.Status{Code: uint32(base.CodeOf(err)), Msg: "failed"})
}

func (s *script) foreign(fs []*wire.Foreign) (out string) {
	for _, f := range fs {
		sp := base.Span{Start: f.Span.Start}
		if len(f.Span.End) > 0 {
			sp.End = f.Span.End
		}
		out += fmt.Sprintf("; %s is of %s", spanName(sp), groupName(base.GroupID(f.Group)))
		for _, w := range f.Since {
			out += fmt.Sprintf(" by entry %d of g%d", w.Index, w.Region)
		}
	}
	return out
}

func (s *script) rows(rows []*wire.KV) string {
	var out []string
	for _, r := range rows {
		switch {
		case r.Absent:
			out = append(out, keyName(r.Key)+" absent")
		default:
			line := fmt.Sprintf("%s=%s @%s", keyName(r.Key), r.Value, s.c.at(base.Timestamp(r.Ts)))
			if h := base.Label(r.Label).Home(); h > 1 {
				line += fmt.Sprintf(" of r%d", h)
			}
			if r.Advice != 0 {
				line += fmt.Sprintf(" (take it to r%d)", r.Advice)
			}
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

func (s *script) readAnswer(resp *wire.ReadResponse) string {
	if resp.Status != nil {
		return s.status(resp.Status)
	}
	out := s.rows(resp.Rows) + s.foreign(resp.Foreign)
	if len(resp.Along) > 0 {
		out += "; along: " + s.rows(resp.Along)
	}
	if len(resp.Resume) > 0 {
		out += fmt.Sprintf("; more from %s of span %d", keyName(resp.Resume), resp.ResumeSpan)
	}
	if resp.Bounded {
		out += "; bounded by a slot"
	}
	if resp.Newer != 0 {
		out += "; newer: " + s.c.at(base.Timestamp(resp.Newer))
	}
	return out
}

func (s *script) commitAnswer(q *wire.CommitRequest, resp *wire.CommitResponse) string {
	if resp.Status != nil {
		out := s.status(resp.Status) + s.foreign(resp.Foreign)
		if resp.NeedTs != 0 {
			out += "; needs " + s.c.at(base.Timestamp(resp.NeedTs))
		}
		return out
	}
	out := "committed @" + s.c.at(base.Timestamp(resp.Ts))
	if q.Prepare {
		out = fmt.Sprintf("voted [%s, %s)", s.c.at(base.Timestamp(resp.Ts)), s.c.at(base.Timestamp(resp.Hi)))
	}
	for _, k := range resp.Moved {
		out += "; moved " + keyName(k)
	}
	if resp.Moves > 0 {
		out += fmt.Sprintf("; %d more to move", resp.Moves)
	}
	return out
}

func (s *script) writesOf(ws []*wire.Write) (out string) {
	for _, w := range ws {
		switch {
		case w.Patch != nil:
			out += fmt.Sprintf(" %s+%s", keyName(w.Key), w.Patch.Ops[0].Value)
		case w.Kind == wire.WriteKind_DELETE:
			out += fmt.Sprintf(" %s deleted", keyName(w.Key))
		default:
			out += fmt.Sprintf(" %s=%s", keyName(w.Key), w.Value)
		}
		if h := base.Label(w.Label).Home(); h > 1 {
			out += fmt.Sprintf(" of r%d", h)
		}
	}
	return out
}

// entry shows a log entry; with vectors also what its proposer had applied of other groups.
func (s *script) entry(i int, e *entry, vectors bool) string {
	c := e.cmd
	if c == nil {
		return fmt.Sprintf("%d: first of term %d", i, e.term)
	}
	what := ""
	name := func(b []byte) string { return s.txnName(base.TxnID(b)) }
	switch {
	case c.Commit != nil:
		what = fmt.Sprintf("commit %s @%s%s", name(c.Commit.Txn), s.c.at(base.Timestamp(c.Ts)), s.writesOf(c.Commit.Writes))
	case c.Prepare != nil:
		v := c.Prepare
		what = fmt.Sprintf("vote %s [%s, %s)", name(v.Txn), s.c.at(base.Timestamp(v.Lo)), s.c.at(base.Timestamp(v.Hi)))
		for _, p := range v.Participants {
			what += " " + groupName(base.GroupID(p))
		}
		if len(v.Writes) > 0 {
			what += ":" + s.writesOf(v.Writes)
		}
	case c.Decide != nil:
		what = "abort " + name(c.Decide.Txn)
		if c.Decide.Commit {
			what = fmt.Sprintf("decide %s @%s", name(c.Decide.Txn), s.c.at(base.Timestamp(c.Decide.Ts)))
			for _, v := range c.Decide.Values {
				what += fmt.Sprintf(" %q", v)
			}
		}
	case len(c.Refuse) > 0:
		what = "refuse " + name(c.Refuse)
	case c.Clock != nil:
		what = fmt.Sprintf("clock mode %s, epoch %d", clock.Mode(c.Clock.Mode), c.Clock.Epoch)
	case c.Collect != nil:
		what = "collect"
		for _, k := range c.Collect.Keys {
			what += " " + keyName(k)
		}
		what += " up to " + s.c.at(base.Timestamp(c.Collect.Below))
	}
	if q := c.LeaseTransfer; q != nil {
		what += fmt.Sprintf("lease for n%d until %s, the last entry of term %d", q.Target, s.c.at(base.Timestamp(q.End)), e.term)
	}
	if c.Ended != nil {
		what += fmt.Sprintf(" (the lease of n%d ended at %s)", c.Ended.Holder, s.c.at(base.Timestamp(c.Ended.End)))
	}
	if c.Lease != nil {
		if what != "" {
			what += ", "
		}
		what += fmt.Sprintf("lease of n%d until %s", c.Lease.Holder, s.c.at(base.Timestamp(c.Lease.End)))
		if c.Lease.Virtual {
			what += " (virtual)"
		}
	}
	for _, v := range c.Vector {
		if vectors {
			what += fmt.Sprintf(", has g%d up to %d", v.Region, v.Index)
		}
	}
	return fmt.Sprintf("%d: %s", i, strings.TrimSpace(what))
}

// ---- steps ----

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t, s.d, s.args = t, d, slices.Clone(d.CmdArgs)
	if d.Cmd == "cluster" {
		s.end()
		s.begin()
		synctest.Wait()
		s.c.happened()
		return "ok\n"
	}
	if s.c == nil {
		d.Fatalf(t, "there is no cluster")
	}
	out := s.step()
	if len(s.args) > 0 {
		d.Fatalf(t, "what is %s?", s.args[0].Key)
	}
	synctest.Wait()
	for _, e := range s.c.happened() {
		out += e + "\n"
	}
	out += s.late()
	if out == "" {
		return "ok\n"
	}
	return out
}

func (s *script) begin() {
	o := options{nodes: s.number("nodes", 3), regions: s.number("regions", 1)}
	o.passes = s.flag("passes")
	o.untold = s.flag("untold")
	o.ticks, o.async, o.modes, o.policy, o.alone, o.unbound, o.measured, o.drowsy = s.flag("ticks"), s.flag("async"), s.flag("modes"), s.flag("policy"), s.flag("alone"), s.flag("nobounds"), s.flag("measured"), s.flag("drowsy")
	o.waiting = s.number("waiting", 0)
	switch {
	case s.flag("timestamp"):
		o.concurrency = base.ByTimestamp
	case s.flag("relay"):
		o.concurrency = base.ByTimestampRelay
	}
	s.c, s.txns = newCluster(s.t, o), map[string]*txn{}
	time.Sleep(time.Millisecond)
}

func (s *script) step() string {
	if f := requests[s.d.Cmd]; f != nil {
		return f(s)
	}
	if f := controls[s.d.Cmd]; f != nil {
		return f(s)
	}
	if f := looks[s.d.Cmd]; f != nil {
		return f(s)
	}
	s.d.Fatalf(s.t, "unknown step %s", s.d.Cmd)
	return ""
}

// requests are what coordinators ask of owners.
var requests = map[string]func(*script) string{
	"read":      (*script).read,
	"snapshot":  (*script).snapshot,
	"commit":    func(s *script) string { return s.commit(false) },
	"vote":      func(s *script) string { return s.commit(true) },
	"finish":    (*script).finish,
	"resolve":   (*script).resolve,
	"outcome":   (*script).outcome,
	"notice":    (*script).notice,
	"heartbeat": (*script).heartbeat,
	"order":     (*script).order,
	"oracle":    (*script).oracle,
	"local":     (*script).local,
	"closed":    (*script).closed,
}

// read reads under locks: shared, or exclusive with "x".
func (s *script) read() string {
	x, g := s.txn(), s.group()
	q := &wire.ReadRequest{Group: uint32(g), Txn: s.metaOf(x), Lock: uint32(kv.LockShared), Limit: uint32(s.number("limit", 0)), Reverse: s.flag("reverse")}
	if s.flag("x") {
		q.Lock = uint32(kv.LockExclusive)
	}
	q.LockTerm = uint64(s.number("term", s.termOf(x, g)))
	label := "read of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		q.Spans = s.keys()
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Read(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.noteTerm(x, g, resp)
		})
	}
	r := s.replica(g)
	q.Spans = s.keys()
	return s.send(label, func(ctx context.Context) string { return s.noteTerm(x, g, r.Read(ctx, q)) })
}

// termOf is the term in which a transaction took locks in a group; 0: it has none.
func (s *script) termOf(x *txn, g base.GroupID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(x.terms[g])
}

func (s *script) noteTerm(x *txn, g base.GroupID, resp *wire.ReadResponse) string {
	if resp.Status == nil && resp.Term != 0 && s.termOf(x, g) == 0 {
		s.mu.Lock()
		x.terms[g] = resp.Term
		s.mu.Unlock()
	}
	return s.readAnswer(resp)
}

// metaOf is a transaction as it names itself now.
func (s *script) metaOf(x *txn) *wire.TxnMeta {
	return &wire.TxnMeta{Id: x.id[:], Age: x.meta.Age, Gateway: x.meta.Gateway, GatewayRegion: x.meta.GatewayRegion,
		Policy: x.meta.Policy, LockTimeoutNs: x.meta.LockTimeoutNs, Crt: x.meta.Crt}
}

// snapshot reads at a timestamp, without locks; with timestamp ordering on behalf of a transaction
// (by=t1), up to a limit of uncertainty, or only makes sure that nothing has changed since a
// timestamp (refresh).
func (s *script) snapshot() string {
	g := s.group()
	q := &wire.ReadRequest{Group: uint32(g), ReadTs: uint64(s.moment("at")), LimitTs: uint64(s.moment("limit")), Refresh: uint64(s.moment("refresh")),
		MinTs: uint64(s.moment("min")), Limit: uint32(s.number("most", 0)), Reverse: s.flag("reverse")}
	label := "snapshot"
	if by, ok := s.arg("by"); ok {
		x := s.txnOf(by)
		q.Reader, q.Txn = x.id[:], s.metaOf(x)
		label = "snapshot of " + by
	}
	if s.flag("x") {
		q.Lock = uint32(kv.LockExclusive)
	} else if s.flag("s") {
		q.Lock = uint32(kv.LockShared)
	}
	r := s.replica(g)
	q.Spans = s.keys()
	return s.send(label, func(ctx context.Context) string {
		resp := r.Read(ctx, q)
		if q.Refresh != 0 && resp.Status == nil {
			return "unchanged" + s.foreign(resp.Foreign)
		}
		return s.readAnswer(resp)
	})
}

// commit commits in one group, or votes.
func (s *script) commit(vote bool) string {
	x, g := s.txn(), s.group()
	q := &wire.CommitRequest{Group: uint32(g), Txn: s.metaOf(x), Prepare: vote, MinTs: uint64(s.moment("min")), MaxTs: uint64(s.moment("max")),
		Slot: uint64(s.moment("slot")), Snapshot: uint64(s.moment("since")), Reads: spansOf(s.list("reads")), Ordered: (s.c.opts.concurrency.Ordered() && !s.flag("locking")) || s.flag("ordered"),
		Begun: !s.flag("unbegun")}
	q.LockTerm = uint64(s.number("term", s.termOf(x, g)))
	if vote {
		q.Participants = []uint32{uint32(g)}
		for _, w := range s.list("with") {
			q.Participants = append(q.Participants, uint32(s.groupOf(w)))
		}
	}
	if s.flag("alone") {
		q.Participants = nil
	}
	label := s.d.Cmd + " of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		q.Writes = s.writes()
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Commit(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.commitAnswer(q, resp)
		})
	}
	r := s.replica(g)
	q.Writes = s.writes()
	return s.send(label, func(ctx context.Context) string {
		resp := r.Commit(ctx, q)
		s.mu.Lock()
		x.voted = max(x.voted, base.Timestamp(resp.Ts))
		s.mu.Unlock()
		return s.commitAnswer(q, resp)
	})
}

// finish decides a transaction that has voted (commit=20; committed: at what it has voted for;
// abort), or releases its locks.
func (s *script) finish() string {
	x, g := s.txn(), s.group()
	q := &wire.FinishRequest{Group: uint32(g), Txn: x.id[:], MinTs: uint64(s.moment("min")), At: uint64(s.moment("held")), Done: s.flag("done")}
	if ts := s.moment("commit"); ts != 0 {
		q.Prepared, q.Commit, q.Ts = true, true, uint64(ts)
	} else if s.flag("committed") {
		s.mu.Lock()
		q.Prepared, q.Commit, q.Ts = true, true, uint64(x.voted)
		s.mu.Unlock()
	} else if s.flag("abort") {
		q.Prepared = true
	}
	label := "finish of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Finish(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.status(resp.Status)
		})
	}
	r := s.replica(g)
	return s.send(label, func(ctx context.Context) string { return s.status(r.Finish(ctx, q).Status) })
}

// resolve asks one group how a transaction stands there.
func (s *script) resolve() string {
	x, g := s.txn(), s.group()
	r := s.replica(g)
	return s.send("resolve of "+x.name, func(ctx context.Context) string {
		resp := r.Resolve(ctx, &wire.ResolveRequest{Group: uint32(g), Txn: x.id[:]})
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		switch resp.State {
		case wire.TxnState_PREPARED:
			return fmt.Sprintf("prepared [%s, %s), %d participants", s.c.at(base.Timestamp(resp.Ts)), s.c.at(base.Timestamp(resp.Hi)), len(resp.Participants))
		case wire.TxnState_COMMITTED:
			return "committed @" + s.c.at(base.Timestamp(resp.Ts))
		}
		return strings.ToLower(resp.State.String())
	})
}

// outcome asks all groups given, from a node.
func (s *script) outcome() string {
	x := s.txn()
	n := s.nodeOf(s.word())
	var gs []base.GroupID
	for _, w := range s.list("of") {
		gs = append(gs, s.groupOf(w))
	}
	return s.send("outcome of "+x.name, func(ctx context.Context) string {
		ts, commit, err := n.set().Router().Outcome(ctx, x.id, gs)
		switch {
		case err != nil:
			return s.failed(err)
		case commit:
			return "committed @" + s.c.at(ts)
		}
		return "aborted"
	})
}

// notice tells a participant that another one has voted.
func (s *script) notice() string {
	x, g := s.txn(), s.group()
	from, _ := s.arg("from")
	r := s.replica(g)
	r.OnVote(x.id, s.groupOf(from))
	time.Sleep(time.Millisecond)
	return ""
}

func (s *script) heartbeat() string {
	n := s.nodeOf(s.word())
	q := &wire.TxnHeartbeatRequest{}
	for len(s.args) > 0 {
		q.Txns = append(q.Txns, s.txn().id[:])
	}
	n.set().Heartbeat(q)
	return ""
}

// order tells and asks the timestamp manager of a region.
func (s *script) order() string {
	g := s.group()
	q := &wire.OrderRequest{Group: uint32(g), Ts: uint64(s.moment("ends")), Began: uint64(s.moment("began"))}
	r := s.replica(g)
	return s.send("order", func(ctx context.Context) string {
		resp := r.Order(ctx, q)
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		return "ended before: " + s.c.at(base.Timestamp(resp.Finished))
	})
}

func (s *script) oracle() string {
	q := &wire.OracleRequest{Min: uint64(s.moment("min"))}
	r := s.replica(base.MetaGroup)
	return s.send("oracle", func(ctx context.Context) string {
		resp := r.Oracle(ctx, q)
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		return s.c.at(base.Timestamp(resp.Ts))
	})
}

// local reads what a replica shows, whoever the owners are.
func (s *script) local() string {
	n := s.nodeOf(s.word())
	q := &wire.ReadRequest{ReadTs: uint64(s.moment("at"))}
	r := n.set().Replica(s.group())
	q.Spans = s.keys()
	return s.send("local read", func(ctx context.Context) string {
		resp, err := r.ReadLocal(ctx, q)
		if err != nil {
			return s.failed(err)
		}
		return s.readAnswer(resp)
	})
}

// closed waits until a group, or its whole shard, is closed at a node up to a timestamp.
func (s *script) closed() string {
	n := s.nodeOf(s.word())
	at := s.moment("at")
	if s.flag("shard") {
		return s.send("closed", func(ctx context.Context) string {
			if err := n.set().EnsureClosed(ctx, 1, at); err != nil {
				return s.failed(err)
			}
			return "closed up to " + s.c.at(n.set().Closed(1))
		})
	}
	r := n.set().Replica(s.group())
	return s.send("closed", func(ctx context.Context) string {
		if err := r.EnsureClosed(ctx, at); err != nil {
			return s.failed(err)
		}
		return "closed up to " + s.c.at(r.Closed())
	})
}

// controls are what consensus, the network and the clocks do.
var controls = map[string]func(*script) string{
	"txn":   (*script).declare,
	"sleep": func(s *script) string { time.Sleep(s.span(s.word())); return "" },
	"hold":  func(s *script) string { s.logbook(s.word()).hold(true); return "" },
	"free":  func(s *script) string { s.logbook(s.word()).hold(false); return s.settle() },
	"next": func(s *script) string {
		s.logbook(s.word()).commit(uint64(s.number("entries", 1)))
		return s.settle()
	},
	"lag":      (*script).lag,
	"transfer": (*script).transfer,
	"resume":   func(s *script) string { s.logbook(s.word()).resume(); return s.settle() },
	"depose":   (*script).deposed,
	"elect":    (*script).elect,
	"unknown":  func(s *script) string { s.logbook(s.word()).abandon(); return s.settle() },
	"lead":     (*script).lead,
	"net":      (*script).wires,
	"deliver":  (*script).deliver,
	"clock":    (*script).tune,
	"mode":     (*script).mode,
	"copied":   (*script).copied,
	"advise":   (*script).advise,
	"crash":    func(s *script) string { s.nodeOf(s.word()).stop(); return s.settle() },
	"restart":  func(s *script) string { s.nodeOf(s.word()).start(s.t); return s.settle() },
	"collect":  (*script).collect,
	"cancel":   (*script).cancel,
	"leave":    (*script).leave,
}

// settle lets the consequences of a step happen.
func (s *script) settle() string {
	synctest.Wait()
	time.Sleep(time.Millisecond)
	return ""
}

// declare says how a transaction differs from others.
func (s *script) declare() string {
	x := s.txn()
	x.meta.Age = uint64(s.moment("age"))
	x.meta.GatewayRegion = uint32(s.number("region", 1))
	x.meta.Crt = s.flag("crosses")
	if w, ok := s.arg("timeout"); ok {
		x.meta.LockTimeoutNs = int64(s.span(w))
	}
	if ts := s.moment("began"); ts != 0 {
		x.id = base.MakeTxnID(ts, 9, uint32(len(s.txns)))
		x.meta.Id = x.id[:]
	}
	switch w, _ := s.arg("policy"); w {
	case "nowait":
		x.meta.Policy = uint32(kv.NoWait)
	case "waitdie":
		x.meta.Policy = uint32(kv.WaitDie)
	}
	return ""
}

// lag keeps a node from applying a log, or lets it catch up.
func (s *script) lag() string {
	l := s.logbook(s.word())
	n, off := s.nodeOf(s.word()), s.flag("over")
	l.mu.Lock()
	a := l.lanes[n.id]
	a.lags = !off
	l.mu.Unlock()
	a.later(a.pump)
	return s.settle()
}

// transfer has the leader, or whoever takes itself for it (from=n1), hand its lead over. With
// times, it does so again and again, and each hand-over is given up.
func (s *script) transfer() string {
	g := s.groupOf(s.word())
	to, from := s.nodeOf(s.word()).id, directory{s.c}.Leader(g)
	if w, ok := s.arg("from"); ok {
		from = s.nodeOf(w).id
	}
	times := s.number("times", 1)
	if times == 1 {
		s.c.logs[g].transfer(from, to)
		return s.settle()
	}
	stood := 0
	for range times {
		s.c.logs[g].transfer(from, to)
		s.settle()
		for _, e := range s.c.happened() {
			if strings.Contains(e, "stands for election") {
				stood++
			}
		}
		s.c.logs[g].resume()
		s.settle()
	}
	return fmt.Sprintf("the target stands for election %d times of %d\n", stood, times)
}

// deposed ends a leader's term, without another leader.
func (s *script) deposed() string {
	l := s.logbook(s.word())
	n := s.nodeOf(s.word())
	l.mu.Lock()
	if l.leader == n.id {
		l.leader = 0
	}
	l.lanes[n.id].depose(l.leader, l.lanes[n.id].term+1)
	l.mu.Unlock()
	return s.settle()
}

func (s *script) elect() string {
	l := s.logbook(s.word())
	l.win(s.nodeOf(s.word()).id, s.number("lose", 0), s.flag("unaware"))
	return s.settle()
}

// lead carries the words of a node's leaders to the others, or to one.
func (s *script) lead() string {
	n := s.nodeOf(s.word())
	leads := n.set().Leads()
	if w, ok := s.arg("to"); ok {
		s.nodeOf(w).set().OnLeads(leads)
	} else {
		s.c.each(func(o *node) {
			if o != n && o.running.Load() != nil {
				o.set().OnLeads(leads)
			}
		})
	}
	out := ""
	for _, l := range leads {
		if g := base.GroupID(l.Group); g != base.MetaGroup {
			out += fmt.Sprintf("%s is closed up to %s as of entry %d\n", groupName(g), s.c.at(base.Timestamp(l.Closed)), l.Index)
		}
	}
	if out == "" {
		out = "nothing\n"
	}
	return out
}

// wires says what becomes of the next messages of a kind: drop, hold, double, mute (the answer is
// lost) or late=50; "clear" ends that.
func (s *script) wires() string {
	if s.flag("clear") {
		s.c.net.clear()
		return ""
	}
	for _, do := range []struct{ arg, name string }{{"drop", "dropped"}, {"hold", "held"}, {"double", "doubled"}, {"mute", "unanswered"}, {"late", "late"}} {
		what, ok := s.arg(do.arg)
		if !ok {
			continue
		}
		r := &rule{what: what, do: do.name, times: s.number("times", 1)}
		if by, ok := s.arg("by"); ok {
			r.by = s.span(by)
		}
		if to, ok := s.arg("to"); ok {
			r.toward = s.nodeOf(to).id
		}
		s.c.net.add(r)
	}
	return ""
}

func (s *script) deliver() string {
	if s.c.net.deliver(s.word()) == 0 {
		return "there is none\n"
	}
	return s.settle()
}

// tune sets a node's clock: off=5 is ahead, bound=2 is what it says of its error.
func (s *script) tune() string {
	n := s.nodeOf(s.word())
	if w, ok := s.arg("off"); ok {
		off, neg := strings.CutPrefix(w, "-")
		d := s.span(off)
		if neg {
			d = -d
		}
		n.source.Set(d, 0, 0)
	}
	if w, ok := s.arg("bound"); ok {
		n.source.Claim(s.span(w))
	}
	if w, ok := s.arg("limit"); ok {
		n.clock.SetLimit(s.span(w))
	}
	return ""
}

// mode puts a clock mode in force at a node, or orders it by the log of the meta group.
func (s *script) mode() string {
	m := map[string]clock.Mode{"gclock": clock.GClock, "dual": clock.Dual, "gtm": clock.GTM}[s.word()]
	epoch, raise := uint64(s.number("epoch", 2)), s.moment("oracle")
	if w, ok := s.arg("at"); ok {
		if !s.nodeOf(w).clock.Adopt(m, epoch, raise) {
			return "ignored\n"
		}
		return ""
	}
	r := s.replica(base.MetaGroup)
	return s.send("order of "+m.String(), func(ctx context.Context) string {
		if err := r.OrderClock(ctx, &wire.ClockOrder{Mode: uint32(m), Epoch: epoch}, raise); err != nil {
			return s.failed(err)
		}
		now, steps := r.ClockSteps()
		return fmt.Sprintf("%s, epoch %d, after %d steps", clock.Mode(now.Mode), now.Epoch, len(steps))
	})
}

// copied says what other regions have of an asynchronous group.
func (s *script) copied() string {
	g := s.groupOf(s.word())
	x := copied{uint64(s.number("index", 0)), s.moment("cut")}
	s.c.mu.Lock()
	s.c.copies[g] = x
	s.c.mu.Unlock()
	s.c.each(func(n *node) { n.set().HeldChanged() })
	return s.settle()
}

// advise has the policy of homes move a row to the region of whoever uses it there, if that is the
// one given, together with other rows.
func (s *script) advise() string {
	key := keyOf(s.word())
	v := homing.Verdict{To: base.RegionID(s.number("to", 2)), Reason: []byte("test")}
	for _, w := range s.list("with") {
		v.With = append(v.With, keyOf(w))
	}
	for _, w := range s.list("along") {
		v.Along = append(v.Along, keyOf(w))
	}
	s.c.mu.Lock()
	s.c.advice[string(key)] = v
	s.c.mu.Unlock()
	return ""
}

func (s *script) collect() string {
	n := s.nodeOf(s.word())
	return s.send("collection", func(ctx context.Context) string {
		if err := n.set().Collect(ctx); err != nil {
			return s.failed(err)
		}
		return "collected up to " + s.c.at(n.store.GCThreshold(1))
	})
}

// cancel has the clients of all requests that wait give up.
func (s *script) cancel() string {
	for _, r := range s.pending {
		r.cancel()
	}
	return s.settle()
}

// leave takes a group's replica away from a node.
func (s *script) leave() string {
	n, g := s.nodeOf(s.word()), s.group()
	n.set().Remove(g)
	n.lanes[g].log.mu.Lock()
	defer n.lanes[g].log.mu.Unlock()
	n.lanes[g].lags = true
	return ""
}

// looks change nothing.
var looks = map[string]func(*script) string{
	"log":   (*script).log,
	"rows":  (*script).table,
	"locks": (*script).locks,
	"who":   (*script).who,
	"stats": (*script).stats,
	"guess": (*script).guess,
	"modes": (*script).modes,
}

// log shows the entries since it was asked for last.
func (s *script) log() string {
	l := s.logbook(s.word())
	vectors := s.flag("vectors")
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for ; l.shown < len(l.entries); l.shown++ {
		line := s.entry(l.shown+1, l.entries[l.shown], vectors)
		if uint64(l.shown) >= l.committed {
			line += " (not committed)"
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// table shows all versions at a node, the newest of a key first.
func (s *script) table() string {
	n := s.nodeOf(s.word())
	var b strings.Builder
	shard := base.ShardID(1)
	if s.flag("meta") {
		shard = base.MetaShard
	}
	if err := n.store.EachVersion(shard, func(v *store.Version) error {
		fmt.Fprintf(&b, "%s=%s @%s", keyName(v.Key), v.Value, s.c.at(v.TS))
		if v.Tombstone {
			b.WriteString(" deleted")
		}
		if h := v.Label.Home(); h > 1 {
			fmt.Fprintf(&b, " of r%d", h)
		}
		if v.Label.Pinned() {
			b.WriteString(" pinned")
		}
		b.WriteString("\n")
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// locks shows transactions and locks at an owner.
func (s *script) locks() string {
	g := s.group()
	r := s.replica(g)
	var lines []string
	for _, x := range r.Txns() {
		line := s.txnName(x.ID) + " is " + x.Phase
		if x.TS != 0 {
			line += " @" + s.c.at(x.TS)
		}
		lines = append(lines, line)
	}
	for _, l := range r.Locks(0) {
		line := fmt.Sprintf("%s %s %s", s.txnName(l.Txn), l.Mode, spanName(l.Span))
		if l.CRT {
			line += " against transactions that cross regions"
		}
		if l.Waiting {
			line += " (waits)"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return "none\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

// who shows which nodes serve a group.
func (s *script) who() string {
	g := s.groupOf(s.word())
	out := ""
	s.c.each(func(n *node) {
		if n.running.Load() == nil {
			return
		}
		if term, ok := n.set().Replica(g).Serving(); ok {
			out += fmt.Sprintf("n%d serves in term %d\n", n.id, term)
		}
	})
	if out == "" {
		return "nobody\n"
	}
	return out
}

// stats shows counters of a replica that are not 0.
func (s *script) stats() string {
	st := s.replica(s.group()).Stats()
	out := ""
	for _, x := range []struct {
		name string
		n    int64
	}{
		{"slot waits", st.SlotWaits.Load()}, {"waits for the undecided", st.UndecidedWaits.Load()}, {"patches", st.Patches.Load()},
		{"waits for patches", st.PatchWaits.Load()}, {"patches lost", st.PatchesLost.Load()}, {"expired", st.Expired.Load()},
		{"handed over", st.HandedOver.Load()}, {"inherited", st.Inherited.Load()}, {"given up", st.GivenUp.Load()}, {"passed on", st.Helped.Load()},
		{"died", st.Died.Load()}, {"lock waits", st.LockWaits.Load()}, {"deadlocks", st.Deadlocks.Load()}, {"collected", st.Collected.Load()},
	} {
		if x.n != 0 {
			out += fmt.Sprintf("%s: %d\n", x.name, x.n)
		}
	}
	return out
}

// modes are the clock modes that a node knows to have been ordered.
func (s *script) modes() string {
	now, steps := s.nodeOf(s.word()).set().Replica(base.MetaGroup).ClockSteps()
	out := fmt.Sprintf("%s is in force, epoch %d\n", clock.Mode(now.Mode), now.Epoch)
	for _, o := range steps {
		out += fmt.Sprintf("  %d %s\n", o.Epoch, clock.Mode(o.Mode))
	}
	return out
}

// guess is what a node takes for the owners of keys and the parts of ranges.
func (s *script) guess() string {
	n := s.nodeOf(s.word())
	out := ""
	for _, w := range s.keys() {
		if len(w.End) == 0 {
			g, ok := n.set().Locate(w.Start)
			out += fmt.Sprintf("%s: %s %v\n", keyName(w.Start), groupName(g), ok)
			continue
		}
		parts, ok := n.set().Segments(base.Span{Start: w.Start, End: w.End}, 100)
		for _, p := range parts {
			out += fmt.Sprintf("%s: %s\n", spanName(p.Span), groupName(p.Owner))
		}
		if !ok {
			out += "not known\n"
		}
	}
	return out
}
