package backup

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// Small makes pieces of so many bytes, and has restores note their progress after so many rows.
func Small(bytes int, rows int64) (undo func()) {
	p, g, n, s := pieceSize, pageBytes, noteEvery, sortBytes
	pieceSize, pageBytes, noteEvery, sortBytes = bytes, 4*bytes, rows, 4*bytes
	return func() { pieceSize, pageBytes, noteEvery, sortBytes = p, g, n, s }
}

// ClaimWithin is for how long a part of a backup may wait for a node of its region.
func ClaimWithin(d time.Duration) (undo func()) {
	was := claimWithin
	claimWithin = d
	return func() { claimWithin = was }
}

// GoOn goes on with the only job that nobody does, as a node that has found it would.
func (g *Env) GoOn(ctx context.Context) error {
	all, err := job.List(ctx, g.DB)
	if err != nil {
		return err
	}
	for _, rec := range all {
		if !rec.Free(g.DB.Time()) {
			continue
		}
		o := new(order)
		if err := errors.Join(json.Unmarshal(rec.Spec, o), g.reachesOf(ctx, &rec, o)); err != nil {
			return err
		}
		lease, err := job.Claim(ctx, g.DB, rec.ID)
		if err != nil {
			return err
		}
		_, done := g.start(lease, o)
		return (<-done).err
	}
	return errors.New("there is no such job")
}

// Log is a log of changes whose segments are written when a test says so.
type Log struct{ l *logging }

// NewLog begins a log as a statement says, without a job that goes on by itself.
func (g *Env) NewLog(ctx *sql.Context, text string) *Log {
	l := g.newLog(ctx, Parse(text))
	if err := g.settle(l.l.o); err != nil {
		panic(err)
	}
	return l.sort()
}

func (g *Env) newLog(ctx *sql.Context, st *Statement) *Log {
	p, err := g.openPlace(ctx, st.place, true)
	if err != nil {
		panic(err)
	}
	keys := archive.NewKeyring(st.passphrase)
	key, err := keys.New()
	if err != nil {
		panic(err)
	}
	o := st.order()
	lease, err := job.Create(ctx, g.DB, job.Record{Kind: "test", Spec: []byte("{}")})
	if err != nil {
		panic(err)
	}
	w := &work{g: g, o: o, l: &library{g: g, place: p, keys: keys}, lease: lease, job: g.Jobs.Resume(lease.ID(), "test", "", 0)}
	ts := g.DB.Clock() + 999
	return &Log{&logging{work: w, key: key, from: ts - ts%1000}}
}

// Segment writes the next segment.
func (l *Log) Segment(t *testing.T) {
	t.Helper()
	if err := l.l.segment(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// NewLogOf begins the log of a region's rows that a statement orders.
func (g *Env) NewLogOf(ctx *sql.Context, text, region string) *Log {
	st := Parse(text)
	o := st.order()
	if err := g.settle(o); err != nil {
		panic(err)
	}
	st.place = o.Places[region]
	l := g.newLog(ctx, st)
	o.Part = &partOrder{Region: region, Main: o.Place}
	l.l.o, l.l.work.l.region = o, region
	return l.sort()
}

// sort has the log of an order with places of regions take its own rows.
func (l *Log) sort() *Log {
	var err error
	if l.l.by, err = l.l.g.sorting(l.l.o); err != nil {
		panic(err)
	}
	return l
}
