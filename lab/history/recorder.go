package history

import (
	"maps"
	"sync"
)

// Recorder collects the transactions of many clients. Its methods may be called from any goroutine.
type Recorder struct {
	now func() int64

	mu    sync.Mutex
	txns  []*Active
	init  map[string]string
	final map[string]string
}

// NewRecorder returns a recorder that takes its instants from now: one monotonic clock for all
// clients (virtual time in the simulation), safe for concurrent calls. Two calls may return the
// same instant.
func NewRecorder(now func() int64) *Recorder {
	return &Recorder{now: now, init: map[string]string{}}
}

// SetInit declares the state before the first transaction. It replaces what was declared before.
func (r *Recorder) SetInit(state map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.init = maps.Clone(state)
}

// SetFinal declares the state after the last transaction, which makes NoLostWrites possible.
func (r *Recorder) SetFinal(state map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.final = maps.Clone(state)
	if r.final == nil {
		r.final = map[string]string{}
	}
}

// Begin records the invocation of a transaction by a client whose gateway is in region. Call it
// before the first message is sent.
func (r *Recorder) Begin(client int, region string) *Active {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &Active{rec: r}
	// The instant is taken under the lock, so that identifiers and instants grow together.
	a.txn = Txn{ID: int64(len(r.txns) + 1), Client: client, Region: region, Invoke: r.now()}
	r.txns = append(r.txns, a)
	return a
}

// History returns a copy of what was recorded so far. Transactions that have not ended are Unknown.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Txns: make([]Txn, len(r.txns)), Init: maps.Clone(r.init), Final: maps.Clone(r.final)}
	for i, a := range r.txns {
		a.mu.Lock()
		h.Txns[i] = a.txn
		// The operations themselves are never changed once appended; only the slice grows.
		h.Txns[i].Ops = a.txn.Ops[:len(a.txn.Ops):len(a.txn.Ops)]
		h.Txns[i].Regions = append([]string(nil), a.txn.Regions...)
		a.mu.Unlock()
	}
	return h
}

// Active is a transaction being recorded. Record a write before it is sent (it may take effect
// although no answer comes), a read after it was answered. After the first of Commit, Abort,
// Unknown nothing more is recorded.
type Active struct {
	rec *Recorder

	mu    sync.Mutex
	txn   Txn
	ended bool
}

// ID is the identifier of the transaction, unique in its recorder; a handy source of unique values.
func (a *Active) ID() int64 { return a.txn.ID }

func (a *Active) add(o Op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.txn.Ops = append(a.txn.Ops, o)
	}
}

// Read records that key held value; "" if there was no such key.
func (a *Active) Read(key, value string) { a.add(Op{Kind: OpRead, Key: key, Value: value}) }

// ReadList records that the list in key held these elements, oldest first.
func (a *Active) ReadList(key string, elems []string) {
	a.add(Op{Kind: OpReadList, Key: key, List: append([]string(nil), elems...)})
}

// Scan records that the span [start, end) held exactly rows; end "" means no upper end.
func (a *Active) Scan(start, end string, rows []KV) {
	a.add(Op{Kind: OpScan, Key: start, End: end, Rows: append([]KV(nil), rows...)})
}

// Write records a write of a unique value.
func (a *Active) Write(key, value string) { a.add(Op{Kind: OpWrite, Key: key, Value: value}) }

// Append records that a unique element was added to the list in key.
func (a *Active) Append(key, elem string) { a.add(Op{Kind: OpAppend, Key: key, Value: elem}) }

// Delete records a delete of key.
func (a *Active) Delete(key string) { a.add(Op{Kind: OpDelete, Key: key}) }

// Touch adds regions to those that the transaction is relevant to (see Txn.Regions).
func (a *Active) Touch(regions ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
next:
	for _, r := range regions {
		for _, have := range a.txn.Regions {
			if have == r {
				continue next
			}
		}
		a.txn.Regions = append(a.txn.Regions, r)
	}
}

// ReadAt records the timestamp at which the reads are served, and whether the client allowed them
// to be behind.
func (a *Active) ReadAt(snapshot uint64, stale bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.txn.Snapshot, a.txn.Stale = snapshot, stale
	}
}

func (a *Active) end(o Outcome, ts uint64) {
	at := a.rec.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	a.txn.Outcome, a.txn.Timestamp, a.txn.Return = o, ts, at
}

// Commit records that the commit was acknowledged, now; ts is the commit timestamp, 0 if it is not
// known.
func (a *Active) Commit(ts uint64) { a.end(Committed, ts) }

// Abort records that the transaction certainly left nothing.
func (a *Active) Abort() { a.end(Aborted, 0) }

// Unknown records that the client cannot know. ts is the timestamp at which it may have committed,
// 0 if not known.
func (a *Active) Unknown(ts uint64) { a.end(Unknown, ts) }
