package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/schema"
)

// segment is one of a library's log.
type segment struct {
	*archive.Segment
	l      *library
	folder string
	key    *archive.Key
}

// segmentIDs calls fn for the segments that end behind a moment, the oldest first, until it returns
// false.
func (l *library) segmentIDs(ctx context.Context, behind base.Timestamp, fn func(folder, id string) (bool, error)) error {
	folders, err := l.place.Folders(ctx)
	if err != nil {
		return err
	}
	slices.Sort(folders)
	first := archive.LogFolder(behind)
	for _, folder := range folders {
		if !archive.IsLogFolder(folder) || folder < first {
			continue
		}
		files, err := l.place.Files(ctx, folder)
		if err != nil {
			return err
		}
		slices.Sort(files)
		for _, f := range files {
			id, ok := strings.CutSuffix(f, archive.SegmentSuffix)
			if !ok || !archive.IsID(id) || id <= archive.LastID(behind) {
				continue
			}
			if more, err := fn(folder, id); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

func (l *library) segment(ctx context.Context, folder, id string) (*segment, error) {
	file := folder + "/" + id + archive.SegmentSuffix
	b, err := l.place.Read(ctx, file, mostManifestFile)
	if err != nil {
		return nil, fmt.Errorf("backup file %s: %w", file, err)
	}
	s, key, err := archive.DecodeSegment(folder, id, b, l.keys)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(s.Region, l.region) {
		return nil, &archive.FileError{File: file, Why: otherRegion(s.Region, "another place")}
	}
	return &segment{s, l, folder, key}, nil
}

// log is the segments that lead from a backup to a moment, or as far as they do without a gap; to
// is how far that is.
func (l *library) log(ctx context.Context, v *volume, upTo base.Timestamp) (out []*segment, to base.Timestamp, err error) {
	to = v.Timestamp
	err = l.segmentIDs(ctx, v.Timestamp, func(folder, id string) (bool, error) {
		s, err := l.segment(ctx, folder, id)
		if err != nil {
			return false, err
		}
		switch {
		case s.Cluster != v.Cluster || s.Target != v.Target || s.To <= to:
			return true, nil
		case s.From > to:
			return false, nil
		}
		out, to = append(out, s), s.To
		return to < upTo, nil
	})
	return out, to, err
}

// reach finds the backup that leads, with the segments behind it, to a moment; 0: to the latest
// that there is.
func (l *library) reach(ctx context.Context, ts base.Timestamp) (v *volume, at base.Timestamp, err error) {
	ids, err := l.ids(ctx)
	if err != nil {
		return nil, 0, err
	}
	var torn, moments []string
	for _, id := range slices.Backward(ids) {
		v, err := l.volume(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		if v == nil {
			torn = append(torn, id)
			continue
		}
		if len(moments) < mostProblems {
			moments = append(moments, "'"+moment(v.Timestamp)+"'")
		}
		if ts == v.Timestamp {
			return v, ts, nil
		}
		if ts != 0 && v.Timestamp > ts {
			continue
		}
		upTo := ts
		if ts == 0 {
			upTo = base.MaxTimestamp
		}
		_, to, short, err := l.logs(ctx, v, upTo)
		switch {
		case err != nil:
			return nil, 0, err
		case ts == 0:
			return v, to, nil
		case to < ts:
			of := ""
			if short.region != "" {
				of = " of region " + short.region
			}
			return nil, 0, schema.Invalid("there is no backup of " + moment(ts) + " in that place, and the log of changes" + of + " leads from the one of " +
				moment(v.Timestamp) + " to " + moment(to) + " only; the newest are of " + strings.Join(moments, ", ") + " (SHOW BACKUP lists all)")
		}
		return v, ts, nil
	}
	switch {
	case len(moments) > 0:
		return nil, 0, schema.Invalid("there is no complete backup of " + moment(ts) + " or before in that place; the newest are of " +
			strings.Join(moments, ", ") + " (SHOW BACKUP lists all)")
	case len(torn) > 0:
		return nil, 0, &archive.FileError{File: torn[0] + "/" + archive.ManifestName, Why: "it is missing: the backup was never completed"}
	}
	return nil, 0, schema.Invalid("there is no backup in that place")
}

// asOf is a backup as segments make it: what it held at a moment behind it. A log of the main place
// alone has no rows with a placement: tables that have some are left out.
func (v *volume) asOf(log []*segment, at base.Timestamp, alone bool) (*volume, error) {
	m := *v.Manifest
	out := &volume{Manifest: &m, l: v.l, key: v.key}
	counters := map[uint64]uint64{}
	for _, s := range log {
		if len(s.Skipped) > 0 {
			m.Skipped = s.Skipped
		}
		for id, n := range s.Counters {
			counters[id] = max(counters[id], n)
		}
		for _, x := range s.States {
			if x.At > v.Timestamp && x.At <= at {
				if err := out.turn(v, s, &x); err != nil {
					return nil, err
				}
			}
		}
	}
	all := m.Tables
	m.Tables = nil
	for _, t := range all {
		_, d, err := out.table(&t)
		switch {
		case err != nil:
			return nil, err
		case alone && residence.Placed(d):
			m.Skipped = append(slices.Clone(m.Skipped), residence.Unread(d))
		default:
			t.Counter = max(t.Counter, counters[d.AutoKey])
			m.Tables = append(m.Tables, t)
		}
	}
	return out, nil
}

// turn makes the definitions those of a state. Rows of tables that the backup has stay.
func (out *volume) turn(v *volume, s *segment, x *archive.State) error {
	m := out.Manifest
	m.Databases, m.Objects, m.Tables = nil, nil, nil
	for _, i := range x.Databases {
		m.Databases = append(m.Databases, s.Defs[i])
	}
	for _, o := range x.Objects {
		m.Objects = append(m.Objects, archive.Object{Kind: o.Kind, Desc: s.Defs[o.Def]})
	}
	for _, i := range x.Tables {
		t := archive.Table{Desc: s.Defs[i]}
		_, d, err := out.table(&t)
		if err != nil {
			return err
		}
		if was := v.byID[d.ID]; was != nil {
			t.Rows, t.Streams, t.Alone, t.Counter = was.Rows, was.Streams, was.Alone, was.Counter
		}
		m.Tables = append(m.Tables, t)
	}
	if m.Whole {
		m.Users = x.Users
	}
	for id, name := range s.Regions {
		if m.Regions[id] == "" {
			m.Regions[id] = name
		}
	}
	return nil
}

// showLog runs SHOW BACKUP LOG: the periods whose moments the log of changes leads to.
func (l *library) showLog(ctx context.Context) (rows []sql.Row, err error) {
	var last *segment
	var from base.Timestamp
	segments, bytes := int64(0), int64(0)
	end := func() {
		if last != nil {
			rows = append(rows, sql.Row{moment(from), moment(last.To), last.Target, segments, bytes})
		}
	}
	err = l.segmentIDs(ctx, 0, func(folder, id string) (bool, error) {
		s, err := l.segment(ctx, folder, id)
		if err != nil {
			return false, err
		}
		if last == nil || s.From > last.To || s.Target != last.Target || s.Cluster != last.Cluster {
			end()
			from, segments, bytes = s.From, 0, 0
		}
		last, segments = s, segments+1
		for _, f := range s.Pieces {
			bytes += f.Size
		}
		return true, nil
	})
	end()
	return rows, err
}

// verifyLog reads all segments and their pieces. It calls note with each error of a file.
func (l *library) verifyLog(ctx context.Context, note func(error) error) (row sql.Row, err error) {
	files, records, bytes := int64(0), int64(0), int64(0)
	err = l.segmentIDs(ctx, 0, func(folder, id string) (bool, error) {
		s, err := l.segment(ctx, folder, id)
		if err != nil {
			return true, note(err)
		}
		files++
		for _, f := range s.Pieces {
			err := s.each(ctx, f, func(*archive.Decoder, *archive.Record, base.ShardID, base.TableID, []byte) error { return nil })
			if err = note(err); err != nil {
				return false, err
			}
			files, records, bytes = files+1, records+f.Records, bytes+f.Size
		}
		return true, ctx.Err()
	})
	if err != nil || files == 0 {
		return nil, err
	}
	name := "log"
	if l.region != "" {
		name += ", region " + l.region
	}
	return sql.Row{name, "ok", files, records, bytes}, nil
}

func (s *segment) read(ctx context.Context, f archive.File) ([]byte, error) {
	b, err := s.l.place.Read(ctx, s.folder+"/"+f.Name, archive.MostFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &archive.FileError{File: s.folder + "/" + f.Name, Why: "it is missing"}
	}
	if err != nil {
		return nil, fmt.Errorf("backup file %s/%s: %w", s.folder, f.Name, err)
	}
	return b, nil
}

// each calls fn for the records of a piece.
func (s *segment) each(ctx context.Context, f archive.File, fn func(d *archive.Decoder, r *archive.Record, shard base.ShardID,
	table base.TableID, pk []byte) error) error {
	b, err := s.read(ctx, f)
	if err != nil {
		return err
	}
	d, err := archive.Open(s.folder, f, archive.LogPiece, b, s.key)
	if err != nil {
		return err
	}
	for {
		var r archive.Record
		if ok, err := d.Next(&r); err != nil || !ok {
			return err
		}
		shard, table, pk, err := d.LogRow(&r)
		if err == nil {
			err = fn(d, &r, shard, table, pk)
		}
		if err != nil {
			return err
		}
	}
}
