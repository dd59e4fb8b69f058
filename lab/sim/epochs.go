package sim

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// epochs is what a run knows of MULTI MASTER tables: all submitted transactions before any filter,
// all views, and the answers that clients got.
type epochs struct {
	mu    sync.Mutex
	sent  map[submitted][]byte
	views map[uint64]epoch.View
	// rows that clients have inserted under ids of their own, by the answer that they got
	acked, refused, unknown map[int64]bool
	counts                  [2]int // increments: acknowledged, of unknown outcome
}

type submitted struct {
	view, num uint64
	node      base.NodeID
}

func newEpochs() epochs {
	return epochs{sent: map[submitted][]byte{}, views: map[uint64]epoch.View{}, acked: map[int64]bool{},
		refused: map[int64]bool{}, unknown: map[int64]bool{}}
}

// watchEpochs records what a node's engine submits. After a crash its goroutines still run for a
// moment, on a disk and a network that no other node sees: what they submit then does not count.
func (w *world) watchEpochs(c *multimaster.Config, l *life) {
	self := c.Self
	c.OnBatch = func(view, num uint64, batch []byte) {
		if l.crashed.Load() {
			return
		}
		w.epochs.mu.Lock()
		defer w.epochs.mu.Unlock()
		name := submitted{view, num, self}
		if old, twice := w.epochs.sent[name]; twice && !bytes.Equal(old, batch) {
			w.fail("node %d has two batches for epoch %d of view %d", self, num, view)
		}
		w.epochs.sent[name] = batch
	}
	c.OnView = func(v epoch.View) {
		w.epochs.mu.Lock()
		defer w.epochs.mu.Unlock()
		if old, ok := w.epochs.views[v.Number]; ok && (old.Start != v.Start || !slices.Equal(old.Members, v.Members)) {
			w.fail("there are two views of number %d: %+v and %+v", v.Number, old, v)
		}
		w.epochs.views[v.Number] = v
	}
}

var epochSchema = []string{
	"CREATE TABLE d.ea (id INT PRIMARY KEY, bal INT) LOCALITY MULTI MASTER",
	"CREATE TABLE d.ec (id INT PRIMARY KEY, v INT) LOCALITY MULTI MASTER",
	"CREATE TABLE d.el (id BIGINT PRIMARY KEY, who INT, v VARCHAR(20), KEY by_who (who)) LOCALITY MULTI MASTER",
	"INSERT INTO d.ea VALUES (1,100),(2,100),(3,100),(4,100),(5,100),(6,100)",
	"INSERT INTO d.ec VALUES (1, 0)",
}

// onEpochs runs one transaction on MULTI MASTER tables.
func (s *sqlWork) onEpochs() {
	l := s.gateway()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	conn, err := s.db(l).Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	t := &stx{ctx: ctx, conn: conn}
	explicit := func(fn func() error) error {
		if _, err := t.exec("BEGIN"); err != nil {
			return err
		}
		if err := fn(); err != nil {
			_, _ = t.exec("ROLLBACK")
			return fmt.Errorf("%w before the commit: %w", errRollback, err)
		}
		_, err := t.exec("COMMIT")
		return err
	}
	outcome := func(kind string, acked, refused, unknown func()) {
		e := &s.w.epochs
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case err == nil && !l.dead.Load():
			acked()
			s.count(kind, 0, nil)
		case err != nil && (errors.Is(err, errRollback) || certain(err)) && !l.dead.Load():
			refused()
			s.count(kind, 1, nil)
		default:
			unknown()
			s.count(kind, 2, nil)
			s.note(kind, fmt.Errorf("%w", cmpErr(err)))
		}
	}
	none := func() {}
	switch k := s.rng.IntN(10); {
	case k < 4:
		id := s.rng.Int64N(1 << 40)
		_, err = t.exec("INSERT INTO el VALUES (?, ?, ?)", id, s.id, fmt.Sprint(id))
		e := &s.w.epochs
		outcome("epoch insert", func() { e.acked[id] = true }, func() { e.refused[id] = true }, func() { e.unknown[id] = true })
	case k < 6:
		from, to := 1+s.rng.IntN(sqlAccounts), 1+s.rng.IntN(sqlAccounts)
		err = explicit(func() error {
			if _, err := t.exec("UPDATE ea SET bal = bal - 1 WHERE id = ?", from); err != nil {
				return err
			}
			// The transaction may also read a row of another kind of table.
			if _, err := t.query("SELECT id, v FROM q WHERE id = ?", s.rng.IntN(s.keys)); err != nil {
				return err
			}
			_, err := t.exec("UPDATE ea SET bal = bal + 1 WHERE id = ?", to)
			return err
		})
		outcome("epoch transfer", none, none, none)
	case k < 8:
		var n int64
		n, err = t.exec("UPDATE ec SET v = v + 1 WHERE id = 1")
		e := &s.w.epochs
		// no row: this node's snapshot is from before it was made
		outcome("epoch increment", func() { e.counts[0] += int(n) }, none, func() { e.counts[1]++ })
	default:
		sum := -1.0
		if err = conn.QueryRowContext(ctx, "SELECT SUM(bal) FROM ea").Scan(&sum); err == nil && sum != 100*sqlAccounts {
			s.w.fail("a snapshot of epochs has a total of %v, want %d", sum, 100*sqlAccounts)
		}
		outcome("epoch read", none, none, none)
	}
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("the answer came too late")
	}
	return err
}

// checkEpochs waits until all nodes take part in the epochs and hold the same rows. It compares
// them with a flat run of all submitted transactions, and with the answers that clients got.
func (w *world) checkEpochs() {
	end := time.Now().Add(drainBound)
	for {
		left := w.unsettledEpochs()
		if left == "" {
			break
		}
		if time.Now().After(end) {
			w.fail("%v after the last transaction: %s", drainBound, left)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	rows, digest, err := w.flatRun()
	if err != nil {
		w.fail("%w", err)
		return
	}
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		if at, got := l.node.Epochs().Digest(); got != digest {
			w.fail("node %d, at epoch %d, has not done what a flat run of the same submissions does", h.id, at)
		}
		n := 0
		err := l.store.EachVersion(base.EpochShard, func(v *store.Version) error {
			want, ok := rows[string(v.Key)]
			switch {
			case !ok || uint64(v.TS) > want.at:
				return fmt.Errorf("%s@%d is there and should not", v.Key, v.TS)
			case uint64(v.TS) == want.at:
				n++
				if v.Tombstone != want.del || !v.Tombstone && !bytes.Equal(v.Value, want.val) {
					return fmt.Errorf("%s@%d is %q instead of %q", v.Key, v.TS, v.Value, want.val)
				}
			}
			return nil
		})
		if err != nil || n != len(rows) {
			w.fail("node %d has %d of %d rows of epochs: %v", h.id, n, len(rows), err)
		}
	}
}

func (w *world) unsettledEpochs() string {
	var first epoch.Digest
	for i, h := range w.hosts {
		l := h.up()
		if l == nil {
			return fmt.Sprintf("node %d is down", h.id)
		}
		e := l.node.Epochs()
		s := e.Status()
		_, d := e.Digest()
		if i == 0 {
			first = d
		}
		if s.State != multimaster.Member || len(s.Members) != len(w.hosts) || d != first || s.Unfinished > 0 {
			return fmt.Sprintf("node %d stands at %+v in the epochs", h.id, s)
		}
	}
	return ""
}

// flatRow is a row of the flat run.
type flatRow struct {
	at  uint64
	val []byte
	del bool
}

type flatRows map[string]flatRow

func (m flatRows) Newest(key base.Key) (uint64, error) { return m[string(key)].at, nil }

func (m flatRows) Touched(span base.Span, after uint64) (bool, error) {
	for k, v := range m {
		if v.at > after && span.Contains(base.Key(k)) {
			return true, nil
		}
	}
	return false, nil
}

// flatRun merges all submitted transactions in one place and in order, without a filter.
func (w *world) flatRun() (flatRows, epoch.Digest, error) {
	e := &w.epochs
	e.mu.Lock()
	defer e.mu.Unlock()
	viewOf := func(num uint64) (in epoch.View) {
		for _, n := range slices.Sorted(maps.Keys(e.views)) {
			if v := e.views[n]; v.Start <= num {
				in = v
			}
		}
		return in
	}
	nums := map[uint64]bool{}
	for name := range e.sent {
		if viewOf(name.num).Number == name.view {
			nums[name.num] = true
		}
	}
	rows, fates := flatRows{}, map[base.TxnID]uint64{}
	var d epoch.Digest
	for _, num := range slices.Sorted(maps.Keys(nums)) {
		view := viewOf(num)
		var batches []filter.Batch
		for _, n := range view.Members {
			if data, ok := e.sent[submitted{view.Number, num, n}]; ok {
				b, err := filter.Decode(int(n), data)
				if err != nil {
					return nil, d, err
				}
				batches = append(batches, *b)
			}
		}
		m, err := epoch.Merge(num, batches, rows, d)
		if err != nil {
			return nil, d, err
		}
		for _, id := range m.Committed {
			if old, twice := fates[id]; twice {
				return nil, d, fmt.Errorf("transaction %s commits in epochs %d and %d", id, old, num)
			}
			fates[id] = num
		}
		for _, x := range m.Writes {
			rows[x.Key] = flatRow{num, x.Value, x.Del}
		}
		d = m.Digest
	}
	return rows, d, nil
}

// checkAnswers compares the answers that clients got with the rows that all nodes have now.
func (w *world) checkAnswers(s *sqlWork) {
	e := &w.epochs
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, liveBound)
		for _, q := range []string{"SELECT id FROM el", "SELECT id FROM el WHERE who >= 0"} {
			w.checkInserts(ctx, h, s.db(l), q)
		}
		w.checkTotals(ctx, h, s.db(l))
		cancel()
	}
	w.log.printf("epochs: %d views, %d batches; %d inserts acknowledged, %d refused, %d of unknown outcome",
		len(e.views), len(e.sent), len(e.acked), len(e.refused), len(e.unknown))
}

// checkInserts compares the rows that a query of a node finds with the inserts that were
// acknowledged and refused; the caller holds the lock of w.epochs.
func (w *world) checkInserts(ctx context.Context, h *host, db *sql.DB, q string) {
	e := &w.epochs
	rows, err := db.QueryContext(ctx, q)
	if err != nil {
		w.fail("node %d: %s: %w", h.id, q, err)
		return
	}
	defer rows.Close()
	there := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil || there[id] {
			w.fail("node %d: %s: row %d is there twice (%v)", h.id, q, id, err)
		}
		there[id] = true
	}
	for id := range e.acked {
		if !there[id] {
			w.fail("node %d: %s: row %d was acknowledged, and is lost", h.id, q, id)
		}
	}
	for id := range there {
		if e.refused[id] || !e.acked[id] && !e.unknown[id] {
			w.fail("node %d: %s: row %d is there, and was refused for certain", h.id, q, id)
		}
	}
}

// checkTotals compares the total of the accounts and the counter of a node with what clients did;
// the caller holds the lock of w.epochs.
func (w *world) checkTotals(ctx context.Context, h *host, db *sql.DB) {
	e := &w.epochs
	var sum float64
	v := -1
	err := db.QueryRowContext(ctx, "SELECT SUM(bal) FROM ea").Scan(&sum)
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT v FROM ec WHERE id = 1").Scan(&v)
	}
	if err != nil || sum != 100*sqlAccounts || v < e.counts[0] || v > e.counts[0]+e.counts[1] {
		w.fail("node %d: the total is %v, the counter %d with %d increments acknowledged and %d of unknown outcome: %v",
			h.id, sum, v, e.counts[0], e.counts[1], err)
	}
}
