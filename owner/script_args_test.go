package owner_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

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
	kinds := map[string]wire.WriteKind{"insert": wire.WriteKind_INSERT, "delete": wire.WriteKind_DELETE,
		"move": wire.WriteKind_MOVE, "fence": wire.WriteKind_FENCE}
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
