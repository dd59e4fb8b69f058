package changefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
)

const (
	leastWait = 250 * time.Millisecond // after a failure
	mostWait  = time.Minute
	// everyMark is the time between marks unless the statement says another one. A sink that
	// gathers messages gets them less often.
	everyMark = time.Second
)

// Bounds of a batch and of a page of a scan, in bytes. Tests have less.
var (
	batchBytes = 8 << 20
	pageBytes  = 1 << 20
)

// running is a feed that this node does.
type running struct {
	g     *Env
	x     *spec
	lease *job.Lease
	job   ddl.Work
	sink  sink.Sink
	a     *sink.Address
	words *words
	hold  *hold.Hold

	mu sync.Mutex
	at progress

	byID      map[base.TableID]int // positions in the spec
	renamings []renaming
	batch     []sink.Message
	size      int
	gathered  time.Time // when the first message of the batch came
	marked    time.Time // when the last mark was sent
	took      time.Time // when the sink has taken something, the last time
	wait      time.Duration
	limit     time.Duration // how far behind the feed may be
}

func (f *running) progress() progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// update changes the progress, which the lease stores with its next renewal.
func (f *running) update(fn func(*progress)) error {
	f.mu.Lock()
	fn(&f.at)
	at := f.at
	f.mu.Unlock()
	return f.lease.Checkpoint(at)
}

// run ends with an error, or when a feed that only scans has done so.
func (f *running) run(ctx context.Context) (err error) {
	var stored progress // an empty one: what the checkpoint has not is not there
	if ok, err := f.lease.Restore(&stored); err != nil {
		return err
	} else if f.at = f.x.begin(); ok {
		f.at = stored
	}
	if f.a, err = sink.Parse(f.x.sink()); err != nil {
		return schema.Invalid(err.Error())
	}
	if f.words, err = f.g.words(&f.x.Options); err != nil {
		return err
	}
	s := f.x.Options.Sink
	s.Encoding = string(f.x.Options.Format.Encoding)
	s.Name = fmt.Sprintf("%d-%d", f.lease.ID(), f.lease.Term())
	open := f.g.OpenSink
	if open == nil {
		open = f.g.Policy.Open
	}
	if f.sink, err = open(ctx, f.a, s); err != nil {
		return err
	}
	defer f.sink.Close()
	f.took = f.g.DB.Time().Time()
	f.sink.Reached(uint64(f.at.Resolved))
	if f.hold, err = hold.Take(ctx, f.g.DB, f.at.Resolved, "CHANGEFEED "+f.lease.Record().What); err != nil {
		return err
	}
	defer f.keep(ctx)()
	f.limit = f.x.Options.Protect + f.g.DB.Time().Sub(f.at.Resolved)
	if f.at.Scan != nil {
		if err := f.scan(ctx); err != nil {
			return err
		}
	}
	if f.x.Options.Scan == scanOnly {
		return nil
	}
	for {
		again, err := f.follow(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// keep renews the hold on what the feed would need if it went on from its checkpoint.
func (f *running) keep(ctx context.Context) (stop func()) {
	stored := f.progress().Resolved
	return job.Regularly(ctx, hold.Every, func(ctx context.Context) bool {
		// What was the progress a while ago is stored by now, or the lease is lost.
		f.hold.Advance(stored)
		stored = f.progress().Resolved
		if err := f.hold.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
			f.g.Log.Warn("the snapshot of a change feed could not be held for longer yet", "job", f.lease.ID(), "err", err)
		}
		return true
	})
}

// end notes in the job how it has ended.
func (f *running) end(err error) {
	most := 15 * time.Second
	if errors.Is(err, errClosing) {
		most = time.Second
	}
	ctx, cancel := afterwards(most)
	defer cancel()
	pause := errors.Is(err, job.ErrPaused)
	switch {
	case err == nil, pause, errors.Is(err, job.ErrCanceled), errors.Is(err, job.ErrLost), errors.Is(err, errClosing):
	default:
		err = errors.New(f.advice(err))
		f.g.Log.Error("a change feed has failed", "job", f.lease.ID(), "of", f.lease.Record().What, "err", err)
		pause = f.x.Options.OnError == onErrorPause
	}
	var noted error
	switch {
	case errors.Is(err, job.ErrLost):
		return
	case errors.Is(err, errClosing):
		noted = f.lease.Release(ctx)
	case pause:
		if errors.Is(err, job.ErrPaused) {
			err = nil
		}
		noted = f.lease.Suspend(ctx, err)
	default:
		noted = f.lease.Finish(ctx, err)
		if f.g.OpenSink == nil && f.a != nil {
			_ = f.g.Policy.Unsign(ctx, f.a, f.x.Sign)
		}
	}
	if noted != nil && !errors.Is(noted, job.ErrLost) {
		f.g.Log.Warn("how a change feed has ended could not be noted: another node looks at it again", "job", f.lease.ID(), "err", noted)
	}
	if f.hold == nil {
		return
	}
	switch { // another node takes a hold of its own before this one ends
	case errors.Is(err, errClosing):
	case pause:
		noted = f.hold.RenewFor(ctx, f.x.Options.Protect)
	default:
		noted = f.hold.Release(ctx)
	}
	if noted != nil {
		f.g.Log.Info("the hold of a change feed ends by itself", "job", f.lease.ID(), "err", noted)
	}
}

// advice words why a feed has failed, and what to do.
func (f *running) advice(err error) string {
	at := f.progress()
	text := err.Error()
	if base.CodeOf(err) == base.CodeTooOld {
		text = "the old versions that the feed still needs have been collected (" + text + ")"
	}
	if f.x.Options.OnError == onErrorPause && (base.CodeOf(err) == base.CodeTooOld || errors.As(err, new(*goneError))) {
		text += "; RESUME JOB would meet the same"
	}
	if at.Scan != nil {
		return text + ". The initial scan was not complete: CREATE CHANGEFEED again, once that is mended"
	}
	return fmt.Sprintf("%s. All changes up to %s have arrived: once that is mended, CREATE CHANGEFEED ... WITH cursor = '%s' goes on "+
		"there while the cluster has the old versions, and without cursor all rows come again", text, moment(at.Resolved),
		event.Timestamp(at.Resolved))
}

// goneError says that a table cannot be followed any longer.
type goneError struct{ why string }

func (e *goneError) Error() string { return e.why }

// again does something until it succeeds, or until trying again is of no use.
func (f *running) again(ctx context.Context, fn func(context.Context) error) error {
	for {
		err := fn(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			f.took = f.g.DB.Time().Time()
			if f.wait /= 2; f.wait < leastWait {
				f.wait = 0
			}
			if f.progress().Trouble != "" {
				f.g.Log.Info("a change feed goes on", "job", f.lease.ID())
				return f.update(func(p *progress) { p.Trouble = "" })
			}
			return nil
		}
		if final(err) {
			return err
		}
		f.g.totals.failures.Add(1)
		if behind := f.behind(); behind > f.limit {
			return fmt.Errorf("the feed is %v behind, and gc_protect_expires_after is %v: %w", behind.Round(time.Second),
				f.x.Options.Protect, err)
		}
		if f.progress().Trouble == "" {
			f.g.Log.Warn("a change feed is held up", "job", f.lease.ID(), "err", err)
		}
		since := f.took.Format(time.RFC3339)
		if err := f.update(func(p *progress) { p.Trouble = err.Error() + " (since " + since + ")" }); err != nil {
			return err
		}
		f.wait = min(max(2*f.wait, leastWait), mostWait)
		t := time.NewTimer(f.wait/2 + rand.N(f.wait/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// final reports whether trying again is of no use.
func final(err error) bool {
	switch base.CodeOf(err) {
	case base.CodeTooOld, base.CodeInvalid, base.CodeCorrupt:
		return true
	}
	return sink.Permanent(err) || errors.As(err, new(*goneError)) || errors.As(err, new(*wordError))
}

// wordError says that a row cannot be worded.
type wordError struct{ error }

// behind is how old what the feed needs is. A scan needs one moment, however long it takes.
func (f *running) behind() time.Duration {
	if f.progress().Scan != nil {
		return f.g.DB.Time().Time().Sub(f.took)
	}
	b := f.g.DB.Time().Sub(f.progress().Resolved)
	if b < f.x.Options.Protect {
		f.limit = f.x.Options.Protect
	}
	return b
}

// topic is what the topic of a table is called: by its first name, whatever it is called now.
func (f *running) topic(i int) string {
	return f.a.Topic(topicName(f.x.Of[i].String()))
}

// topicName is a name that Kafka takes: other characters are hexadecimal, as _u0040_.
func topicName(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "_u%04x_", r)
		}
	}
	return b.String()
}

func (f *running) topics() (out []string) {
	for i := range f.x.Of {
		out = append(out, f.topic(i))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// add adds a change to the batch.
func (f *running) add(ctx context.Context, i int, c *event.Change) error {
	c.Topic = f.topic(i)
	m, err := f.words.message(ctx, c)
	if err != nil && f.words.registry != nil { // it may answer later
		err = f.again(ctx, func(ctx context.Context) (err error) { m, err = f.words.message(ctx, c); return err })
	}
	if err != nil {
		return err
	}
	if len(f.batch) == 0 {
		f.gathered = time.Now()
	}
	f.batch = append(f.batch, m)
	if f.size += len(m.Key) + len(m.Value) + len(c.Topic) + 64; f.size >= batchBytes {
		return f.flush(ctx)
	}
	return nil
}

// flush sends the batch, and returns when all of it is acknowledged.
func (f *running) flush(ctx context.Context) error {
	if len(f.batch) == 0 {
		return nil
	}
	if err := f.again(ctx, func(ctx context.Context) error { return f.sink.Emit(ctx, f.batch) }); err != nil {
		return err
	}
	n, bytes := len(f.batch), 0
	for i := range f.batch {
		bytes += len(f.batch[i].Key) + len(f.batch[i].Value)
	}
	f.g.totals.rows.Add(int64(n))
	f.g.totals.bytes.Add(int64(bytes))
	f.job.Did(n)
	clear(f.batch)
	f.batch, f.size = f.batch[:0], 0
	return f.update(func(p *progress) { p.Rows, p.Bytes = p.Rows+int64(n), p.Bytes+int64(bytes) })
}

// reached notes that everything up to a moment has arrived, once that is so, and sends a mark now
// and then.
func (f *running) reached(ctx context.Context, ts base.Timestamp) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	if err := f.update(func(p *progress) { f.resolve(p, ts) }); err != nil {
		return err
	}
	f.sink.Reached(uint64(ts))
	every := cmp.Or(f.x.Options.Every, everyMark)
	if !f.x.Options.Marks || time.Since(f.marked) < every {
		return nil
	}
	f.marked = time.Now()
	err := f.again(ctx, func(ctx context.Context) error {
		m, err := f.words.mark(ctx, ts, f.topics())
		if err != nil {
			return err
		}
		return f.sink.Mark(ctx, f.topics(), m)
	})
	if err != nil {
		return err
	}
	f.g.totals.marks.Add(1)
	return nil
}

// due reports whether the batch has been gathered for long enough.
func (f *running) due() bool {
	return len(f.batch) == 0 || time.Since(f.gathered) >= f.sink.Linger()
}

// scan sends all rows as of the beginning.
func (f *running) scan(ctx context.Context) error {
	var snap *schema.Snapshot
	err := f.again(ctx, func(ctx context.Context) (err error) {
		snap, err = schema.LoadSnapshot(ctx, f.g.DB, nil, f.x.Since)
		return err
	})
	if err != nil {
		return err
	}
	for i := f.at.Scan.Table; i < len(f.x.Of); i++ {
		t := snap.Table(f.x.Of[i].DB, f.x.Of[i].Table)
		if t == nil {
			return &goneError{"table " + f.x.Of[i].String() + " is not there as of " + moment(f.x.Since)}
		}
		from := position{Table: i}
		if at := f.progress().Scan; at.Table == i {
			from = *at
		}
		err := f.sweep(ctx, swept{t: t, as: f.x.Since, ts: f.x.Since, i: i, from: from}, func(to position) error {
			if f.size < batchBytes/2 && !f.due() {
				return nil
			}
			if err := f.flush(ctx); err != nil {
				return err
			}
			return f.update(func(p *progress) { p.Scan = &to })
		})
		if err != nil {
			return err
		}
	}
	if err := f.flush(ctx); err != nil {
		return err
	}
	if err := f.update(func(p *progress) { p.Scan = nil }); err != nil {
		return err
	}
	f.marked = time.Time{}
	return f.reached(ctx, f.x.Since)
}

// swept is a table of which all rows are sent.
type swept struct {
	t    *schema.Table
	as   base.Timestamp // the rows are those of this moment
	ts   base.Timestamp // and have this one as theirs
	gone bool           // as deleted ones
	i    int
	from position
}

// sweep sends all rows of a table. after is told where it would go on; nil: nobody is.
func (f *running) sweep(ctx context.Context, s swept, after func(position) error) error {
	shards := s.t.Shards()
	for at := s.from; at.Shard < len(shards); {
		p := base.IndexPrefix(shards[at.Shard], s.t.Desc.ID, 0, 0)
		span := base.Span{Start: p, End: p.PrefixEnd()}
		if at.Start != nil {
			span.Start = at.Start
		}
		var rows []kv.Row
		err := f.again(ctx, func(ctx context.Context) (err error) {
			rows, at.Start, err = f.page(ctx, s.as, span)
			return err
		})
		if err != nil {
			return err
		}
		for i := range rows {
			row := make([]any, len(s.t.Cols))
			if err := s.t.DecodeRow(ctx, rows[i].Value, row); err != nil {
				return &wordError{err}
			}
			c := &event.Change{Table: s.t, Key: rows[i].Key, TS: s.ts, After: row}
			if s.gone {
				c.Before, c.After = row, nil
			}
			if err := f.add(ctx, s.i, c); err != nil {
				return err
			}
		}
		if at.Start == nil {
			at.Shard++
		}
		if after != nil {
			if err := after(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// page reads rows as of a moment; next is where the rest begins, nil if there is none.
func (f *running) page(ctx context.Context, ts base.Timestamp, span base.Span) (rows []kv.Row, next base.Key, err error) {
	ctx = kv.WithQuiet(ctx)
	_, err = kv.Run(ctx, f.g.DB, kv.Options{ReadOnly: true, ReadTS: ts}, func(k kv.Txn) error {
		res, err := k.Scan(kv.WithPatience(ctx, kv.NewPatience()), kv.ScanRequest{Spans: []base.Span{span}, MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		rows, next = res.Rows, nil
		if res.Next != nil && len(rows) > 0 {
			next = rows[len(rows)-1].Key.Next()
		}
		return nil
	})
	return rows, next, err
}

// follow sends what is committed. again: it has to begin anew, since tables have other names.
func (f *running) follow(ctx context.Context) (again bool, err error) {
	var r *feed.Reader
	at := f.progress()
	err = f.again(ctx, func(ctx context.Context) (err error) {
		behind := f.x.Options.Protect + max(0, f.g.DB.Time().Sub(at.Resolved))
		r, err = feed.Open(ctx, f.g.feedEnv(), f.g.feedOptions(at.Of, at.Resolved, behind, "CHANGEFEED "+f.lease.Record().What))
		return err
	})
	if err != nil {
		return false, err
	}
	defer r.Close()
	clear(f.byID)
	for id, t := range r.Tables() {
		f.byID[id] = f.position(at.Of, t)
	}
	for {
		txs, resolved, err := r.Next(ctx)
		if err != nil {
			return false, err
		}
		var gone []*schema.Table
		for i := range txs {
			if len(txs[i].Definitions) > 0 {
				lost, err := f.define(ctx, &txs[i])
				if err != nil {
					return false, err
				}
				gone = append(gone, lost...)
			}
			for j := range txs[i].Changes {
				if err := f.change(ctx, txs[i].TS, &txs[i].Changes[j]); err != nil {
					return false, err
				}
			}
			if !txs[i].More && len(gone) > 0 {
				return f.renamed(ctx, txs[i].TS, gone)
			}
		}
		if f.due() {
			if err := f.reached(ctx, resolved); err != nil {
				return false, err
			}
		}
	}
}

// position is that of a table in the spec by its name; -1: it is none.
func (f *running) position(of []name, t *schema.Table) int {
	return slices.IndexFunc(of, func(n name) bool {
		return strings.EqualFold(n.DB, t.Desc.DB) && strings.EqualFold(n.Table, t.Desc.Name)
	})
}

func (f *running) change(ctx context.Context, ts base.Timestamp, c *feed.Change) error {
	i, ok := f.byID[c.Table.Desc.ID]
	if !ok || i < 0 {
		return nil
	}
	e := &event.Change{Table: c.Table, Key: c.Key, Before: c.Before, After: c.After, TS: ts}
	return f.add(ctx, i, e)
}
