package backup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// Retention removes whole chains: a full backup with all that builds on it. Every moment that is to
// be kept stays within reach: the newest backup before the oldest such moment stays, with all that
// it builds on, and so does all behind it. Of a chain the newest backup goes first, and of a backup
// its manifest: whenever a node dies, what is left is whole.

// retain removes what is older than the schedule keeps.
func (w *work) retain(ctx context.Context) error {
	oldest := w.g.DB.Time().Add(-w.o.Keep)
	busy, err := w.g.busy(ctx, w.lease.ID())
	if err != nil {
		return err
	}
	ids, err := w.l.ids(ctx)
	if err != nil {
		return err
	}
	var all []*volume
	var torn []string
	for _, id := range ids {
		v, err := w.l.volume(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case v != nil:
			all = append(all, v)
		case id < archive.LastID(oldest) && !busy[id] && id != w.o.Backup:
			torn = append(torn, id)
		}
	}
	kept, gone := retained(all, oldest, busy)
	for _, v := range slices.Backward(gone) {
		if err := w.l.remove(ctx, v.ID, archive.ManifestName); err != nil {
			return err
		}
		w.g.Log.Info("a backup is not kept any longer", "backup", v.ID, "job", w.lease.ID())
	}
	for _, id := range torn {
		if err := w.l.remove(ctx, id, markName); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return w.l.trim(ctx, kept[0].Timestamp)
}

// retained divides backups, the oldest first, into those that are kept and those that are not.
func retained(all []*volume, oldest base.Timestamp, busy map[string]bool) (kept, gone []*volume) {
	full := map[string]string{} // the full backup that each builds on; itself, if what it builds on is not there
	for _, v := range all {
		full[v.ID] = v.ID
		if top, ok := full[v.Parent]; ok {
			full[v.ID] = top
		}
	}
	keep := map[string]bool{}
	bottom := ""
	for _, v := range all {
		if v.Timestamp <= oldest {
			bottom = full[v.ID] // the newest at or before the oldest moment
		}
		if v.Timestamp > oldest || busy[v.ID] {
			keep[full[v.ID]] = true
		}
	}
	keep[bottom] = true
	for _, v := range all {
		if keep[full[v.ID]] {
			kept = append(kept, v)
		} else {
			gone = append(gone, v)
		}
	}
	return kept, gone
}

// busy are the backups that jobs other than one read or build on.
func (g *Env) busy(ctx context.Context, but uint64) (map[string]bool, error) {
	jobs, err := job.List(ctx, g.DB)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, r := range jobs {
		o := new(order)
		if r.State != job.Running || r.ID == but || json.Unmarshal(r.Spec, o) != nil {
			continue
		}
		out[o.Backup], out[o.Parent] = true, true
	}
	return out, nil
}

// remove removes a folder, one of its files first.
func (l *library) remove(ctx context.Context, folder, first string) error {
	files, err := l.place.Files(ctx, folder)
	if err != nil {
		return err
	}
	if i := slices.Index(files, first); i > 0 {
		files[0], files[i] = files[i], files[0]
	}
	for _, f := range files {
		if err := l.place.Remove(ctx, folder+"/"+f); err != nil {
			return err
		}
	}
	return nil
}

// trim removes segments of the log that end before the oldest backup, each before its pieces.
func (l *library) trim(ctx context.Context, oldest base.Timestamp) error {
	folders, err := l.place.Folders(ctx)
	if err != nil {
		return err
	}
	last := archive.LogFolder(oldest)
	for _, folder := range folders {
		if !archive.IsLogFolder(folder) || folder >= last { // the hour itself stays whole
			continue
		}
		files, err := l.place.Files(ctx, folder)
		if err != nil {
			return err
		}
		slices.SortStableFunc(files, func(a, b string) int {
			return rank(a) - rank(b)
		})
		for _, f := range files {
			if err := l.place.Remove(ctx, folder+"/"+f); err != nil {
				return err
			}
		}
	}
	return nil
}

// rank has segments go before their pieces.
func rank(file string) int {
	if strings.HasSuffix(file, archive.SegmentSuffix) {
		return 0
	}
	return 1
}
