package history

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// parseScenario reads the notation of Txn.String, plus lines "init x=0 y=0" and "final x=1". Left
// out: the outcome is committed, the interval [0,1000] (all concurrent), the client the
// transaction's number.
func parseScenario(text string) (*History, error) {
	h := &History{Init: map[string]string{}}
	for _, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.Fields(l)
		if len(f) == 0 {
			continue
		}
		if f[0] == "init" || f[0] == "final" {
			m := h.Init
			if f[0] == "final" {
				h.Final = map[string]string{}
				m = h.Final
			}
			for _, kv := range f[1:] {
				k, v, _ := strings.Cut(kv, "=")
				m[k] = v
			}
			continue
		}
		t, err := parseTxn(f)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", l, err)
		}
		h.Txns = append(h.Txns, t)
	}
	return h, h.Validate()
}

func parseTxn(f []string) (Txn, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(f[0], "T"), 10, 64)
	if err != nil {
		return Txn{}, err
	}
	t := Txn{ID: id, Client: int(id), Return: 1000, Outcome: Committed}
	for _, w := range f[1:] {
		name, at, _ := strings.Cut(w, "@")
		ts, _ := strconv.ParseUint(at, 10, 64)
		switch {
		case name == "committed":
			t.Outcome, t.Timestamp = Committed, ts
		case name == "aborted":
			t.Outcome = Aborted
		case name == "unknown":
			t.Outcome, t.Timestamp = Unknown, ts
		case name == "snapshot":
			t.Snapshot = ts
		case w == "stale":
			t.Stale = true
		case strings.HasPrefix(w, "client="):
			t.Client, err = strconv.Atoi(w[len("client="):])
		case strings.HasPrefix(w, "region="):
			t.Region = w[len("region="):]
		case strings.HasPrefix(w, "in="):
			t.Regions = strings.Split(w[len("in="):], ",")
		case w[0] == '[':
			from, to, _ := strings.Cut(strings.Trim(w, "[]"), ",")
			if t.Invoke, err = strconv.ParseInt(from, 10, 64); err == nil && to != "?" {
				t.Return, err = strconv.ParseInt(to, 10, 64)
			}
		default:
			var o Op
			if o, err = parseOp(w); err == nil {
				t.Ops = append(t.Ops, o)
			}
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

func parseOp(w string) (Op, error) {
	name, rest, ok1 := strings.Cut(w, "(")
	key, value, ok2 := strings.Cut(rest, ")")
	value = strings.TrimPrefix(value, "=")
	if !ok1 || !ok2 {
		return Op{}, fmt.Errorf("what is %q?", w)
	}
	items := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("[]{},", r) })
	switch name {
	case "r":
		return Op{Kind: OpRead, Key: key, Value: strings.TrimPrefix(value, "-")}, nil
	case "rl":
		return Op{Kind: OpReadList, Key: key, List: items}, nil
	case "w":
		return Op{Kind: OpWrite, Key: key, Value: value}, nil
	case "a":
		return Op{Kind: OpAppend, Key: key, Value: value}, nil
	case "d":
		return Op{Kind: OpDelete, Key: key}, nil
	case "s":
		o := Op{Kind: OpScan}
		o.Key, o.End, _ = strings.Cut(key, ",")
		for _, kv := range items {
			k, v, _ := strings.Cut(kv, "=")
			o.Rows = append(o.Rows, KV{k, v})
		}
		return o, nil
	}
	return Op{}, fmt.Errorf("unknown operation %q", w)
}

// brief prints a violation on one line.
func brief(v *Violation) string {
	if v == nil {
		return "ok"
	}
	if len(v.Cycle) == 0 {
		return v.Kind + ": " + v.Detail
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: T%d", v.Kind, v.Cycle[0].From)
	for _, e := range v.Cycle {
		fmt.Fprintf(&b, " -%s-> T%d", e.Kind, e.To)
	}
	return b.String()
}

var shortLevels = [...]string{"si", "serializable", "session", "relay", "strict"}

// TestScenarios runs the hand-made histories of testdata. Commands:
//
//	check             every level, from si to strict; levels that say the same share a line
//	explain LEVEL     the full text
//	invariants MonotoneSnapshots, NoTornReads, CommitOrder, NoLostWrites (if there is a final
//	   state)
//	linearizable
//	bank start=a end=z total=10    values are amount#tag
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h, err := parseScenario(d.Input)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			var b strings.Builder
			switch d.Cmd {
			case "check":
				said := make([]string, len(shortLevels))
				for l := range shortLevels {
					v, _ := Check(h, Level(l))
					said[l] = brief(v)
				}
				for l := 0; l < len(said); {
					last := l
					for last+1 < len(said) && said[last+1] == said[l] {
						last++
					}
					name := shortLevels[l]
					if last > l {
						name += " to " + shortLevels[last]
					}
					if last-l == len(said)-1 {
						name = "all"
					}
					fmt.Fprintf(&b, "%s: %s\n", name, said[l])
					l = last + 1
				}
			case "explain":
				for l, name := range shortLevels {
					if d.HasArg(name) {
						v, _ := Check(h, Level(l))
						fmt.Fprintln(&b, v)
					}
				}
			case "invariants":
				fmt.Fprintf(&b, "monotone: %s\n", brief(MonotoneSnapshots(h)))
				fmt.Fprintf(&b, "torn: %s\n", brief(NoTornReads(h)))
				fmt.Fprintf(&b, "commit order: %s\n", brief(CommitOrder(h)))
				if h.Final != nil {
					fmt.Fprintf(&b, "no lost writes: %s\n", brief(NoLostWrites(h)))
				}
			case "linearizable":
				verdict, v := Linearizable(h, time.Minute)
				fmt.Fprintf(&b, "%s: %s\n", verdict, brief(v))
			case "bank":
				var start, end string
				var total int64
				d.ScanArgs(t, "start", &start)
				d.ScanArgs(t, "end", &end)
				d.ScanArgs(t, "total", &total)
				fmt.Fprintln(&b, brief(BankTotal(h, start, end, total, func(v string) (int64, error) {
					amount, _, _ := strings.Cut(v, "#")
					return strconv.ParseInt(amount, 10, 64)
				})))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return b.String()
		})
	})
}
