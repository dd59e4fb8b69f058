package exchange

import (
	"strings"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// pure are the functions and operators that depend on their arguments and on constants of the
// statement only, and keep nothing but their own vectors. The others have effects, read the
// session, have the engine compute, or have not been looked at.
var pure = func() map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Fields(`
		!= % & * + - / < << <= <=> <> = > >= >> ^ and between binary bit_count div in is istrue isfalse isnotfalse
		isnotnull isnottrue isnull like neg not or xor | ~ $one_row
		abs acos ascii asin atan bin bit_length case ceil ceiling char_length character_length coalesce concat concat_ws
		cos cot crc32 degrees elt exp field find_in_set floor greatest hex if ifnull insert instr interval lcase least
		left length ln locate log log10 log2 lower lpad ltrim mid mod nullif oct octet_length ord pi position pow power
		quote radians repeat replace reverse right round rpad rtrim sign sin space sqrt strcmp substr substring
		substring_index tan trim trim_leading trim_trailing truncate ucase upper
		date date_add date_sub datediff day dayofmonth dayofweek dayofyear extract from_days hour last_day makedate
		maketime microsecond minute month period_add period_diff quarter sec_to_time second time time_to_sec timestamp
		timestampdiff to_days to_seconds week weekday weekofyear year yearweek`) {
		out[n] = true
	}
	return out
}()

// Free reports whether an expression may be computed in any goroutine, and for some rows before
// others: it depends on nothing but its columns. What is not known to be free is not.
func Free(n expr.Node) bool {
	free := true
	expr.Walk(n, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col, *expr.Const, *expr.Param, *expr.Cast, *expr.Case, *expr.In:
		case *expr.Call:
			free = free && pure[n.Fn.Name] && !n.Fn.Volatile && !n.Fn.Ordered
		default:
			free = false
		}
		k := n.Type().Kind
		free = free && k != expr.JSON && k != expr.Opaque
		return free
	})
	return free
}

// shown is an operator that stands for another one, to measure it.
type shown interface {
	exec.Op
	Unwrap() exec.Op
	// Rewrap measures a copy of the operator.
	Rewrap(op exec.Op) exec.Op
	// Shared is told how many goroutines have worked at once.
	Shared(workers int)
}

func bare(op exec.Op) exec.Op {
	for {
		s, ok := op.(shown)
		if !ok {
			return op
		}
		op = s.Unwrap()
	}
}

// chain are the pieces from op down to the leaf, which is the last one; nil: op is no such chain,
// or some expression of it is not free.
func chain(op exec.Op) (links []exec.Op) {
	for {
		links = append(links, op)
		switch x := bare(op).(type) {
		case exec.Leaf:
			s := x.Spec()
			if s.Read.Lock != exec.LockNone || s.Read.Wait != exec.WaitDefault || s.Read.Limit > 0 || s.Read.Want > 0 ||
				s.Read.Keys != nil || !allFree(s.Filter) {
				return nil
			}
			return links
		case exec.Piece:
			if !allFree(x.Nodes()) {
				return nil
			}
			op = x.Input()
		default:
			return nil
		}
	}
}

// Divides reports whether [New] makes an exchange above op.
func Divides(op exec.Op) bool { return chain(op) != nil }

// Below is an exchange above op if the operator that comes above computes expressions that are not
// [Free]; else that one can be a part of the chain.
func Below(op exec.Op, ns ...expr.Node) exec.Op {
	if allFree(ns) {
		return op
	}
	return New(op)
}

func allFree(ns []expr.Node) bool {
	for _, n := range ns {
		if !Free(n) {
			return false
		}
	}
	return true
}
