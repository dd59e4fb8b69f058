package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/backup/turns"
	"github.com/godwitdb/godwit/sql/schema"
)

// chain is a backup with those that it builds on, the oldest first.
func (l *library) chain(ctx context.Context, v *volume) ([]*volume, error) {
	out := []*volume{v}
	for v.Parent != "" {
		p, err := l.volume(ctx, v.Parent)
		if err != nil {
			return nil, err
		}
		switch {
		case p == nil:
			return nil, &archive.FileError{File: v.Parent + "/" + archive.ManifestName, Why: "it is missing, and backup " + v.ID +
				" builds on it"}
		case p.Cluster != v.Cluster || p.Target != v.Target || p.Timestamp >= v.Timestamp:
			return nil, &archive.FileError{File: v.Parent + "/" + archive.ManifestName, Why: "it is not the backup that " + v.ID +
				" was built on"}
		case len(out) > longestChain:
			return nil, &archive.FileError{File: v.ID + "/" + archive.ManifestName, Why: "too many backups build on each other"}
		}
		out = append(out, p)
		v = p
	}
	slices.Reverse(out)
	return out, nil
}

// show runs SHOW BACKUP.
func (l *library) show(ctx context.Context) (rows []sql.Row, err error) {
	ids, err := l.ids(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		v, err := l.volume(ctx, id)
		if err != nil {
			return nil, err
		}
		if v == nil {
			rows = append(rows, sql.Row{id, "incomplete", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil})
			continue
		}
		kind, parent, files := "full", any(nil), int64(0)
		if v.Parent != "" {
			kind, parent = "incremental", v.Parent
		}
		v.Files(func(archive.File) { files++ })
		var places []string
		for _, p := range v.Places {
			files += p.Files
			places = append(places, p.Region+" = "+p.Place)
		}
		rows = append(rows, sql.Row{id, "complete", kind, parent, moment(v.Timestamp), v.Target, int64(len(v.Tables)), v.Rows(),
			files, v.Bytes(), strings.Join(v.Skipped, ", "), strings.Join(places, ", "), v.howRead()})
	}
	return rows, nil
}

// mostProblems is how many damaged files an error names.
const mostProblems = 10

// verify runs VERIFY BACKUP: it reads all files of all backups, and decodes all rows.
func (l *library) verify(ctx context.Context) (rows []sql.Row, err error) {
	ids, err := l.ids(ctx)
	if err != nil {
		return nil, err
	}
	var wrong []string
	note := func(err error) error {
		var f *archive.FileError
		if !errors.As(err, &f) {
			return err
		}
		wrong = append(wrong, err.Error())
		return nil
	}
	for _, id := range ids {
		v, err := l.volume(ctx, id)
		switch {
		case err != nil:
			if err = note(err); err != nil {
				return nil, err
			}
			continue
		case v == nil:
			rows = append(rows, sql.Row{id, "incomplete", nil, nil, nil})
			continue
		}
		if _, err := l.chain(ctx, v); err != nil {
			if err = note(err); err != nil {
				return nil, err
			}
		}
		row, err := v.verify(ctx, note)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
		for _, pl := range v.Places {
			if row, err = l.verifyPart(ctx, v, pl, note); err != nil {
				return nil, err
			}
			if row != nil {
				rows = append(rows, row)
			}
		}
	}
	var log sql.Row
	for _, x := range l.all() {
		row, err := x.verifyLog(ctx, func(err error) error { return note(x.in(err)) })
		if err != nil {
			return nil, err
		}
		if row != nil {
			log = row
			rows = append(rows, row)
		}
	}
	switch {
	case len(ids) == 0 && log == nil && len(wrong) == 0:
		return nil, schema.Invalid("there is no backup in that place")
	case len(wrong) > mostProblems:
		wrong = append(wrong[:mostProblems], fmt.Sprintf("and %d more", len(wrong)-mostProblems))
	}
	if len(wrong) > 0 {
		return nil, schema.Invalid("damaged: " + strings.Join(wrong, "; "))
	}
	return rows, nil
}

// all are the main place, and those of regions that were opened, by their names.
func (l *library) all() []*library {
	out := []*library{l}
	for _, region := range slices.Sorted(maps.Keys(l.parts)) {
		out = append(out, l.parts[region])
	}
	return out
}

// verifyPart reads the files of a region's part of a backup; nil: it is damaged as a whole.
func (l *library) verifyPart(ctx context.Context, v *volume, pl archive.Place, note func(error) error) (sql.Row, error) {
	part, err := l.partOf(ctx, v, pl)
	if err != nil {
		return nil, note(err)
	}
	wrong := func(err error) error { return note(part.l.in(err)) }
	if _, err := part.l.chain(ctx, part); err != nil {
		if err = wrong(err); err != nil {
			return nil, err
		}
	}
	row, err := part.verify(ctx, wrong)
	if err == nil {
		row[0] = v.ID + ", region " + pl.Region
	}
	return row, err
}

// verify reads the files of a backup. note is told what is wrong with files, and returns any other
// error.
func (v *volume) verify(ctx context.Context, note func(error) error) (sql.Row, error) {
	if _, _, err := v.contents(); err != nil {
		if err = note(err); err != nil {
			return nil, err
		}
	}
	files, records, bytes := int64(0), int64(0), int64(0)
	for i := range v.Tables {
		// The newest definition of a table reads rows of all before it.
		t, _, err := v.table(&v.Tables[i])
		if err = cmp.Or(note(err), ctx.Err()); err != nil {
			return nil, err
		}
		for _, s := range v.Tables[i].Streams {
			for _, kind := range []archive.Kind{archive.RowPiece, archive.KeyPiece} {
				list := s.Rows
				if kind == archive.KeyPiece {
					list = s.Keys
				}
				for _, f := range list {
					n, err := v.verifyFile(ctx, f, kind, t)
					if err = cmp.Or(note(err), ctx.Err()); err != nil {
						return nil, err
					}
					files, records, bytes = files+1, records+n, bytes+f.Size
				}
			}
		}
	}
	return sql.Row{v.ID, "ok", files, records, bytes}, nil
}

// verifyFile decodes a file; t is the table of its rows, nil if its definition is damaged.
func (v *volume) verifyFile(ctx context.Context, f archive.File, kind archive.Kind, t *schema.Table) (n int64, err error) {
	d, err := v.read(ctx, f, kind)
	if err != nil {
		return 0, err
	}
	turn := v.l.g.Turns.Turn(admit.Reading)
	defer turn.End()
	var r archive.Record
	for {
		ok, err := d.Next(&r)
		if err != nil || !ok {
			return n, err
		}
		if n%turns.Every == 0 {
			if err := turns.Yield(ctx, &turn); err != nil {
				return n, err
			}
		}
		n++
		if kind == archive.RowPiece && !r.Deleted && t != nil {
			if _, _, err := decode.Row(ctx, t, d, &r); err != nil {
				return n, err
			}
		}
	}
}
