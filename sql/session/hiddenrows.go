package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
)

// NoteHidden remembers where a row of a table without primary key is.
func (t *Txn) NoteHidden(tab *schema.Table, enc []byte, ref schema.RowRef) {
	if t.hidden == nil {
		t.hidden = map[string][]schema.RowRef{}
	}
	k := hiddenKey(tab, enc)
	for _, r := range t.hidden[k] {
		if r.Shard == ref.Shard && string(r.PK) == string(ref.PK) {
			return
		}
	}
	t.hidden[k] = append(t.hidden[k], schema.RowRef{Shard: ref.Shard, PK: slices.Clone(ref.PK)})
}

// TakeHidden finds where a row of a table without primary key is, by its encoding, and forgets it.
func (t *Txn) TakeHidden(tab *schema.Table, enc []byte) (schema.RowRef, bool) {
	k := hiddenKey(tab, enc)
	refs := t.hidden[k]
	if len(refs) == 0 {
		return schema.RowRef{}, false
	}
	t.hidden[k] = refs[1:]
	return refs[0], true
}

// ForgetHidden forgets that a row of a table without primary key is at ref.
func (t *Txn) ForgetHidden(ctx context.Context, tab *schema.Table, row sql.Row, ref schema.RowRef) error {
	if len(t.hidden) == 0 {
		return nil
	}
	enc, err := tab.AppendRow(ctx, nil, row)
	if err != nil {
		return err
	}
	k := hiddenKey(tab, enc)
	t.hidden[k] = slices.DeleteFunc(t.hidden[k], func(r schema.RowRef) bool {
		return r.Shard == ref.Shard && string(r.PK) == string(ref.PK)
	})
	return nil
}

func hiddenKey(tab *schema.Table, enc []byte) string { return fmt.Sprintf("%d/%s", tab.Desc.ID, enc) }
