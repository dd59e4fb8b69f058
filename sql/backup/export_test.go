package backup

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/godwitdb/godwit/kv/job"
)

// Small makes pieces of so many bytes, and has restores note their progress after so many rows.
func Small(bytes int, rows int64) (undo func()) {
	p, g, n := pieceSize, pageBytes, noteEvery
	pieceSize, pageBytes, noteEvery = bytes, 4*bytes, rows
	return func() { pieceSize, pageBytes, noteEvery = p, g, n }
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
		if err := errors.Join(json.Unmarshal(rec.Spec, o), g.reaches(ctx, o)); err != nil {
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
