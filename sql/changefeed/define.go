package changefeed

import (
	"context"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
)

// define sends what follows from changes of definitions. gone are tables that the reader has no
// more.
func (f *running) define(ctx context.Context, tx *feed.Tx) (gone []*schema.Table, err error) {
	if err := f.flush(ctx); err != nil {
		return nil, err
	}
	of := slices.Clone(f.names())
	for i := range tx.Definitions {
		d := &tx.Definitions[i]
		if d.Old == nil {
			continue // a database, a view, or a table that the feed did not begin with
		}
		at, ok := f.byID[d.Old.Desc.ID]
		if !ok || at < 0 {
			continue
		}
		if d.New == nil {
			gone = append(gone, d.Old)
			continue
		}
		f.byID[d.New.Desc.ID] = at
		of[at] = name{d.New.Desc.DB, d.New.Desc.Name}
		if err := f.altered(ctx, tx.TS, at, d); err != nil {
			return nil, err
		}
	}
	f.rename(tx.TS, of)
	return gone, nil
}

// renaming is what the tables are called from a moment on.
type renaming struct {
	ts base.Timestamp
	of []name
}

// rename notes new names. The checkpoint gets them when it has come that far: its names are those
// as of its moment.
func (f *running) rename(ts base.Timestamp, of []name) {
	if !slices.Equal(f.names(), of) {
		f.renamings = append(f.renamings, renaming{ts, of})
	}
}

// names are what the tables are called now.
func (f *running) names() []name {
	if n := len(f.renamings); n > 0 {
		return f.renamings[n-1].of
	}
	return f.progress().Of
}

// resolve moves the checkpoint on.
func (f *running) resolve(p *progress, ts base.Timestamp) {
	p.Resolved = max(p.Resolved, ts)
	for len(f.renamings) > 0 && f.renamings[0].ts <= p.Resolved {
		p.Of, f.renamings = f.renamings[0].of, f.renamings[1:]
	}
}

// altered sends the rows of a table that look different now, or have other keys.
func (f *running) altered(ctx context.Context, ts base.Timestamp, at int, d *feed.Definition) error {
	emptied := d.Kind == feed.Truncated
	rekeyed := d.Kind == feed.Rewritten && (len(d.New.PK) == 0 || !slices.Equal(outline(d.Old, d.Old.PK), outline(d.New, d.New.PK)))
	changed := rekeyed || !slices.Equal(outline(d.Old, stored(d.Old)), outline(d.New, stored(d.New)))
	if changed && !emptied && f.x.Options.Policy == policyStop {
		return &goneError{fmt.Sprintf("the columns of table %s have changed at %s, and schema_change_policy is 'stop'", f.x.Of[at],
			moment(ts))}
	}
	if emptied || rekeyed {
		s := swept{t: d.Old, as: ts.Prev(), ts: ts, gone: true, i: at}
		if err := f.sweep(ctx, s, nil); err != nil {
			return err
		}
	}
	// The rows that a table has after TRUNCATE follow by themselves.
	if rekeyed || changed && !emptied && f.x.Options.Policy == policyBackfill {
		return f.sweep(ctx, swept{t: d.New, as: ts, ts: ts, i: at}, nil)
	}
	return nil
}

// stored are the positions of the columns that messages have.
func stored(t *schema.Table) []int { return slices.Sorted(slices.Values(t.StoredOrder)) }

// outline is how columns look in messages.
func outline(t *schema.Table, at []int) (out []string) {
	for _, p := range at {
		c := t.Cols[p].Desc
		out = append(out, fmt.Sprintf("%s\x00%s\x00%q", c.Name, c.Type, c.Values))
	}
	return out
}

// renamed goes on with tables that the reader has lost since their names have changed, and fails if
// one is gone.
func (f *running) renamed(ctx context.Context, ts base.Timestamp, gone []*schema.Table) (again bool, err error) {
	if err := f.flush(ctx); err != nil {
		return false, err
	}
	var snap *schema.Snapshot
	err = f.again(ctx, func(ctx context.Context) (err error) {
		snap, err = schema.LoadSnapshot(ctx, f.g.DB, nil, ts)
		return err
	})
	if err != nil {
		return false, err
	}
	of := slices.Clone(f.names())
	for _, t := range gone {
		at := f.byID[t.Desc.ID]
		now := byID(snap, t.Desc.ID)
		if now == nil {
			return false, &goneError{fmt.Sprintf("table %s was dropped at %s", of[at], moment(ts))}
		}
		of[at] = name{now.Desc.DB, now.Desc.Name}
	}
	f.rename(ts, of)
	// No transaction that wrote to such a table has this very timestamp: it would have read the
	// definition as it was before, and as it is since.
	return true, f.reached(ctx, ts)
}

func byID(snap *schema.Snapshot, id base.TableID) *schema.Table {
	for _, db := range snap.Databases {
		for _, t := range db.Tables {
			if t.Desc.ID == id {
				return t
			}
		}
	}
	return nil
}
