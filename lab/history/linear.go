package history

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is the outcome of a check that may run out of time.
type Verdict uint8

const (
	// Ok: every key is linearizable.
	Ok Verdict = iota
	// Illegal: at least one key is not linearizable.
	Illegal
	// Undecided: time ran out before all keys were judged, and none was found illegal.
	Undecided
)

// String is the verdict in one word.
func (v Verdict) String() string { return [...]string{"ok", "illegal", "undecided"}[v] }

// keyOp is what one transaction did to one key: at one instant it found read (if known) and left
// write (if any).
type keyOp struct {
	reads, writes bool
	read, write   string
}

// registerModel is one key: a register that a transaction may read and replace in one step.
func registerModel(initial string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			op := input.(keyOp)
			if op.reads && op.read != state.(string) {
				return false, state
			}
			if op.writes {
				return true, op.write
			}
			return true, state
		},
	}
}

// Linearizable checks every key alone: is there, for its reads and final writes by effective
// transactions, an instant inside each transaction that explains them? Strict serializability and
// Relay both imply it. Transactions marked Stale are left out, and so are range reads. Lists are
// not supported: use the levels.
//
// The time that porcupine needs can be exponential in the number of concurrent operations on a key
// (20 clients on one hot key do not end), hence limit, a bound in real time for all keys together.
// When it is exceeded and nothing was found, the verdict is Undecided. The keys are judged in order
// of name.
func Linearizable(h *History, limit time.Duration) (Verdict, *Violation) {
	const level = "single-key linearizability"
	x, v := newIndex(h, false)
	if v != nil {
		v.Level = level
		return Illegal, v
	}
	byKey := x.operations()
	deadline := time.Now().Add(limit)
	verdict := Ok
	for _, k := range x.sorted {
		ops := make([]porcupine.Operation, len(byKey[k]))
		for i, l := range byKey[k] {
			ops[i] = l.op
		}
		left := time.Until(deadline)
		if left <= 0 { // 0 would mean no limit to porcupine
			return Undecided, nil
		}
		switch porcupine.CheckOperationsTimeout(registerModel(h.Init[x.keys[k].name]), ops, left) {
		case porcupine.Illegal:
			var txns []int32
			for _, l := range byKey[k] {
				if len(txns) < 50 {
					txns = append(txns, l.txn)
				}
			}
			v := complain(h, KindNotLinearizable, txns, "key %s: no order of its %d operations explains what they saw",
				x.keys[k].name, len(ops))
			v.Level = level
			return Illegal, v
		case porcupine.Unknown:
			verdict = Undecided
		}
	}
	return verdict, nil
}

// located is an operation on one key, with its transaction.
type located struct {
	op  porcupine.Operation
	txn int32
}

// operations are those of each key: what a transaction read of it first, and what it wrote last.
func (x *index) operations() [][]located {
	byKey := make([][]located, len(x.keys))
	state := map[int32]*keyOp{}
	for i := range x.h.Txns {
		t := &x.h.Txns[i]
		if t.Outcome == Aborted || t.Stale {
			continue
		}
		clear(state)
		x.summarize(t, t.Outcome == Unknown && !x.effective[i], state)
		end := t.Return
		if t.Outcome == Unknown {
			end = math.MaxInt64
		}
		for k, s := range state {
			byKey[k] = append(byKey[k], located{porcupine.Operation{ClientId: t.Client, Input: *s, Call: t.Invoke,
				Return: end}, int32(i)})
		}
	}
	return byKey
}

// summarize adds the operations of a transaction by key. Of one that may not have happened only
// deletes count: a write that nobody saw may be left out, and a delete leaves nothing that could be
// recognised.
func (x *index) summarize(t *Txn, maybe bool, state map[int32]*keyOp) {
	for _, o := range t.Ops {
		reads, writes := o.Kind == OpRead, o.Kind == OpWrite || o.Kind == OpDelete
		if !reads && !writes || maybe && o.Kind != OpDelete {
			continue
		}
		k := x.keyID[o.Key]
		s := state[k]
		if s == nil {
			s = &keyOp{}
			state[k] = s
		}
		switch {
		case writes:
			s.writes, s.write = true, o.Value
		case !s.reads && !s.writes:
			s.reads, s.read = true, o.Value
		}
	}
}
