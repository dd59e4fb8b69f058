package history

import (
	"fmt"
	"sort"
	"strings"
)

// Outcome is what the client learned about its transaction.
type Outcome uint8

const (
	// Unknown: an ambiguous error, a timeout, a crash of the client, or still running when the
	// history was taken.
	Unknown Outcome = iota
	// Committed: acknowledged to the client.
	Committed
	// Aborted: the database said that nothing of it remains.
	Aborted
)

var outcomeNames = [...]string{"unknown", "committed", "aborted"}

// String is the name of the outcome in the text form.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// OpKind is the kind of an operation.
type OpKind uint8

const (
	// OpRead observed Value in Key ("" = no such key).
	OpRead OpKind = iota
	// OpReadList observed the whole list of appended elements in Key, oldest first.
	OpReadList
	// OpScan observed exactly Rows in the span [Key, End) (End "" = no upper end).
	OpScan
	// OpWrite replaced Key by the unique Value, whether or not it existed.
	OpWrite
	// OpAppend added the unique element Value to the list in Key.
	OpAppend
	// OpDelete removed Key.
	OpDelete
)

var opNames = [...]string{"read", "readlist", "scan", "write", "append", "delete"}

// String is the name of the kind in the text form.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// KV is one row seen by a scan.
type KV struct {
	Key   string `json:"k"`
	Value string `json:"v"`
}

// Op is one operation that the client saw completed, or, for writes, that it asked for.
type Op struct {
	Kind  OpKind
	Key   string // start of the span for OpScan
	End   string // OpScan only, exclusive; "" = unbounded
	Value string // OpRead, OpWrite, OpAppend
	List  []string
	Rows  []KV
}

func (o Op) writes() bool { return o.Kind >= OpWrite }

// String prints the operation in the notation of the test scenarios, e.g. r(x)=1, w(x)=2, d(x),
// s(a,c)={a=1,b=2}.
func (o Op) String() string {
	switch o.Kind {
	case OpRead:
		return fmt.Sprintf("r(%s)=%s", o.Key, orAbsent(o.Value))
	case OpReadList:
		return fmt.Sprintf("rl(%s)=[%s]", o.Key, strings.Join(o.List, ","))
	case OpScan:
		rows := make([]string, 0, len(o.Rows))
		for i, r := range o.Rows {
			if i == 20 {
				rows = append(rows, fmt.Sprintf("... %d rows", len(o.Rows)))
				break
			}
			rows = append(rows, r.Key+"="+r.Value)
		}
		return fmt.Sprintf("s(%s,%s)={%s}", o.Key, o.End, strings.Join(rows, ","))
	case OpWrite:
		return fmt.Sprintf("w(%s)=%s", o.Key, o.Value)
	case OpAppend:
		return fmt.Sprintf("a(%s)=%s", o.Key, o.Value)
	case OpDelete:
		return fmt.Sprintf("d(%s)", o.Key)
	}
	return o.Kind.String()
}

func orAbsent(v string) string {
	if v == "" {
		return "-"
	}
	return v
}

// Txn is one client transaction.
type Txn struct {
	// ID is unique in the history.
	ID int64
	// Client is the process that ran it; a client runs one transaction at a time.
	Client int
	// Region is where the client's gateway is.
	Region string
	// Regions are the shard groups that the transaction is relevant to (Relay, section 3.1: the
	// regions that own a key it accessed; G_T in the paper). Empty means {Region}. Only
	// RelayConsistent looks at it. A deployment that promises more than the paper, e.g. that all
	// clients of one region see one real-time order whatever they touch, lists the client's region
	// too.
	Regions []string
	// Invoke and Return are instants of one monotonic clock, in any unit. Return is ignored for
	// Unknown.
	Invoke, Return int64
	Outcome        Outcome
	// Timestamp is the commit timestamp, 0 if not known. It may be given for Unknown too, if the
	// database tells later at which timestamp it would have committed.
	Timestamp uint64
	// Snapshot is the timestamp that the reads were served at, 0 if not known.
	Snapshot uint64
	// Stale: the client asked for a read that may be behind; real time does not bind it to what
	// finished earlier.
	Stale bool
	Ops   []Op
}

// regions returns G_T.
func (t *Txn) regions() []string {
	if len(t.Regions) > 0 {
		return t.Regions
	}
	return []string{t.Region}
}

// readTS is the timestamp at which its reads hold: the snapshot, else the commit timestamp; 0 if
// neither is known.
func (t *Txn) readTS() uint64 {
	if t.Snapshot != 0 {
		return t.Snapshot
	}
	return t.Timestamp
}

// Name is how explanations call it.
func (t *Txn) Name() string { return fmt.Sprintf("T%d", t.ID) }

// String prints the transaction on one line.
func (t *Txn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s client=%d", t.Name(), t.Client)
	if t.Region != "" {
		fmt.Fprintf(&b, " region=%s", t.Region)
	}
	if len(t.Regions) > 0 {
		fmt.Fprintf(&b, " in=%s", strings.Join(t.Regions, ","))
	}
	if t.Outcome == Unknown {
		fmt.Fprintf(&b, " [%d,?]", t.Invoke)
	} else {
		fmt.Fprintf(&b, " [%d,%d]", t.Invoke, t.Return)
	}
	for i := range t.Ops {
		if i == 40 {
			fmt.Fprintf(&b, " ... %d operations", len(t.Ops))
			break
		}
		b.WriteByte(' ')
		b.WriteString(t.Ops[i].String())
	}
	if t.Snapshot != 0 {
		fmt.Fprintf(&b, " snapshot@%d", t.Snapshot)
	}
	if t.Stale {
		b.WriteString(" stale")
	}
	fmt.Fprintf(&b, " %s", t.Outcome)
	if t.Timestamp != 0 {
		fmt.Fprintf(&b, "@%d", t.Timestamp)
	}
	return b.String()
}

// History is everything the checkers look at. They do not change it.
type History struct {
	Txns []Txn
	// Init is the state before the first transaction; a key that is not in it is absent.
	Init map[string]string
	// Final is the state after the last one, read when everything had settled; nil if it was not
	// read. For keys written by OpAppend it holds the last element. All checkers take it as what a
	// last reader saw.
	Final map[string]string
}

// Validate reports the first thing in the history that breaks the recording rules of the package
// comment, so that a mistake of the test is not taken for one of the database.
func (h *History) Validate() error {
	ids := make(map[int64]struct{}, len(h.Txns))
	for i := range h.Txns {
		t := &h.Txns[i]
		if _, dup := ids[t.ID]; dup {
			return fmt.Errorf("history: transaction id %d occurs twice: give every attempt an id of its own", t.ID)
		}
		ids[t.ID] = struct{}{}
		if t.Outcome > Aborted {
			return fmt.Errorf("history: %s has outcome %d, want unknown, committed or aborted", t.Name(), t.Outcome)
		}
		if t.Outcome != Unknown && t.Return < t.Invoke {
			return fmt.Errorf("history: %s returned at %d before it was invoked at %d: both must come from one monotonic clock",
				t.Name(), t.Return, t.Invoke)
		}
		for j := range t.Ops {
			o := &t.Ops[j]
			switch {
			case o.Kind > OpDelete:
				return fmt.Errorf("history: %s operation %d has unknown kind %d", t.Name(), j, o.Kind)
			case (o.Kind == OpWrite || o.Kind == OpAppend) && o.Value == "":
				return fmt.Errorf("history: %s writes the empty value to %q: it stands for absent, use OpDelete", t.Name(), o.Key)
			case o.Kind == OpScan && o.End != "" && o.End < o.Key:
				return fmt.Errorf("history: %s scans [%q,%q), whose end is below its start", t.Name(), o.Key, o.End)
			}
		}
	}
	return nil
}

// sortByInvoke returns the transactions' indexes in order of invocation.
func (h *History) sortByInvoke() []int32 {
	order := make([]int32, len(h.Txns))
	for i := range order {
		order[i] = int32(i)
	}
	sort.SliceStable(order, func(a, b int) bool { return h.Txns[order[a]].Invoke < h.Txns[order[b]].Invoke })
	return order
}
