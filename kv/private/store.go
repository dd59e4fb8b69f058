package private

import (
	"bytes"
	"slices"

	"github.com/google/btree"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Budget bounds the memory of a store, in bytes.
type Budget interface {
	// Grow takes n bytes, or none and returns an error.
	Grow(n int64) error
	// Shrink gives n bytes back.
	Shrink(n int64)
}

// RowBytes is what a row takes besides the bytes of its key and its value: its place in the tree,
// whose nodes are half full at least, and the headers of two allocations.
const RowBytes = 128

// degree of the trees: nodes have up to twice as many rows.
const degree = 32

// row is a key with its value. Neither is changed once it is in a tree.
type row struct{ key, value []byte }

func (r row) size() int64 { return int64(len(r.key)+len(r.value)) + RowBytes }

func less(a, b row) bool { return bytes.Compare(a.key, b.key) < 0 }

type tree = btree.BTreeG[row]

// Store holds the private rows of one session. It is not safe for concurrent use.
type Store struct {
	budget Budget
	tables map[base.TableID]*tree
	live   int64 // bytes of the rows that there are
	log    []was // newest last
	kept   int64 // bytes of what the log keeps
	taken  int64 // of the budget: live and kept
	gone   []base.Span
	full   error // why a write was not done; nil: all were
}

// was is what a key had before it was written. A nil value says that it was absent, a nil key that
// its table has been dropped since.
type was struct {
	key, value []byte
}

func (w was) size() int64 {
	if w.key == nil {
		return 0
	}
	return row(w).size()
}

// NewStore makes an empty store.
func NewStore(b Budget) *Store { return &Store{budget: b, tables: map[base.TableID]*tree{}} }

// Bytes is what the store takes of its budget.
func (s *Store) Bytes() int64 { return s.taken }

// Keys is how many keys a table has, those of its indexes included.
func (s *Store) Keys(id base.TableID) int {
	if t := s.tables[id]; t != nil {
		return t.Len()
	}
	return 0
}

// Drop removes all rows of a table at once. A rollback does not bring them back.
func (s *Store) Drop(id base.TableID) {
	t := s.tables[id]
	if t != nil {
		t.Ascend(func(r row) bool {
			s.live -= r.size()
			return true
		})
		delete(s.tables, id)
	}
	for i, w := range s.log {
		if base.Key(w.key).Table() == id {
			s.kept -= w.size()
			s.log[i] = was{}
		}
	}
	s.gone = slices.DeleteFunc(s.gone, func(sp base.Span) bool { return sp.Start.Table() == id })
	s.giveBack()
}

// Mark is how much has been written in this transaction.
func (s *Store) Mark() int { return len(s.log) }

// UndoTo undoes what the transaction has written since a mark, and forgets what it was to remove.
// If the transaction has ended since, nothing is left to undo.
func (s *Store) UndoTo(mark int) {
	s.gone = nil
	s.back(min(mark, len(s.log)))
}

// Close gives back all memory. The store must not be used afterwards.
func (s *Store) Close() {
	s.budget.Shrink(s.taken)
	*s = Store{budget: s.budget, tables: map[base.TableID]*tree{}}
}

// giveBack returns to the budget what is not kept any more.
func (s *Store) giveBack() {
	s.budget.Shrink(s.taken - s.live - s.kept)
	s.taken = s.live + s.kept
}

func (s *Store) get(key []byte) (row, bool) {
	t := s.tables[base.Key(key).Table()]
	if t == nil {
		return row{}, false
	}
	return t.Get(row{key: key})
}

// put writes a key; a nil value deletes it. Once a write did not fit, none is done any more.
func (s *Store) put(key, value []byte) {
	old, had := s.get(key)
	if s.full != nil || value == nil && !had {
		return
	}
	var need int64
	if !had {
		old.key = bytes.Clone(key)
		need = was(old).size()
	}
	// The key is shared with the log. What the row was passes into the log.
	now := row{key: old.key}
	if value != nil {
		now.value = append(make([]byte, 0, len(value)), value...)
		need += now.size()
	}
	if s.full = s.budget.Grow(need); s.full != nil {
		return
	}
	s.log = append(s.log, was(old))
	s.kept += was(old).size()
	s.set(now)
	s.taken = s.live + s.kept
}

// set puts a row into its tree without a note in the log; a nil value deletes it.
func (s *Store) set(r row) {
	id := base.Key(r.key).Table()
	t := s.tables[id]
	if r.value == nil {
		if t == nil {
			return
		}
		if old, had := t.Delete(r); had {
			s.live -= old.size()
		}
		return
	}
	if t == nil {
		t = btree.NewG(degree, less)
		s.tables[id] = t
	}
	if old, had := t.ReplaceOrInsert(r); had {
		s.live -= old.size()
	}
	s.live += r.size()
}

// back undoes what was written since the log had a length.
func (s *Store) back(n int) {
	s.full = nil
	for i := len(s.log) - 1; i >= n; i-- {
		if w := s.log[i]; w.key != nil {
			s.kept -= w.size()
			s.set(row(w))
		}
	}
	clear(s.log[n:])
	s.log = s.log[:n]
	s.giveBack()
}

// settle makes what was written permanent.
func (s *Store) settle() {
	gone := s.gone
	s.log, s.kept, s.gone = nil, 0, nil
	for _, sp := range gone {
		s.clear(sp)
	}
	s.giveBack()
}

// clear removes the rows of a span for good.
func (s *Store) clear(sp base.Span) {
	t := s.tables[sp.Start.Table()]
	if t == nil {
		return
	}
	var keys []row
	t.AscendRange(row{key: sp.Start}, row{key: sp.Limit()}, func(r row) bool {
		keys = append(keys, row{key: r.key})
		return true
	})
	for _, k := range keys {
		s.set(k)
	}
	if t.Len() == 0 {
		delete(s.tables, sp.Start.Table())
	}
}

// view is what tables held at the first batch of a scan.
type view map[base.TableID]*tree

// view copies the tables of spans; nothing is copied before it is changed.
func (s *Store) view(spans []base.Span) view {
	v := view{}
	for _, sp := range spans {
		id := sp.Start.Table()
		if t := s.tables[id]; t != nil && v[id] == nil {
			v[id] = t.Clone()
		}
	}
	return v
}

// scanBytes bounds an answer that the caller does not bound.
const scanBytes = 1 << 20

// scan answers a request for private rows.
func (s *Store) scan(req kv.ScanRequest) (kv.ScanResult, error) {
	if req.Merge && req.State == nil && len(req.Spans) > 1 {
		req.Spans = inOrder(req.Spans, req.Reverse)
	}
	room := req.MaxBytes
	if room == 0 {
		room = scanBytes
	}
	from, _ := req.State.(view)
	if from == nil {
		from = s.tables
	}
	var res kv.ScanResult
	for i, sp := range req.Spans {
		t := from[sp.Start.Table()]
		if t == nil {
			continue
		}
		var rest *row
		walk(t, sp, req.Reverse, func(r row) bool {
			if len(res.Rows) > 0 && (req.Limit > 0 && len(res.Rows) >= req.Limit || room <= 0) {
				rest = &r
				return false
			}
			room -= len(r.key) + len(r.value)
			res.Rows = append(res.Rows, kv.Row{Key: r.key, Value: r.value})
			return true
		})
		if rest == nil {
			continue
		}
		next := req
		next.Spans = slices.Clone(req.Spans[i:])
		switch {
		case sp.IsPoint():
		case req.Reverse:
			next.Spans[0].End = base.Key(rest.key).Next()
		default:
			next.Spans[0].Start = rest.key
		}
		if req.State == nil {
			next.State = s.view(next.Spans)
		}
		res.Next = &next
		break
	}
	return res, nil
}

// inOrder sorts spans of one table, whose rows are asked for in one order.
func inOrder(spans []base.Span, reverse bool) []base.Span {
	out := slices.Clone(spans)
	slices.SortFunc(out, func(a, b base.Span) int {
		if reverse {
			a, b = b, a
		}
		return bytes.Compare(a.Start, b.Start)
	})
	return out
}

// walk shows the rows of a span until fn returns false.
func walk(t *tree, sp base.Span, reverse bool, fn func(row) bool) {
	lo, hi := row{key: sp.Start}, row{key: sp.Limit()}
	if !reverse {
		t.AscendRange(lo, hi, fn)
		return
	}
	t.DescendLessOrEqual(hi, func(r row) bool {
		switch {
		case !less(r, hi): // the limit itself is no part of the span
			return true
		case less(r, lo):
			return false
		}
		return fn(r)
	})
}
