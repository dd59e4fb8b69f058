package memkv

import (
	"context"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

var _ kv.Preparer = (*DB)(nil)

// prepare keeps a copy of the transaction, with all its locks, in the place of this one. Its writes
// have been locked and validated. mu is held.
func (t *txn) prepare() error {
	name := string(t.opts.Prepare.Name)
	if t.db.prepared[name] != nil {
		err := base.Errorf(base.CodeExists, "a transaction of that name is prepared")
		err.Key = base.PreparedName(t.opts.Prepare.Name)
		t.end(err)
		return err
	}
	p := *t
	p.opts.Prepare, p.opts.Trace = nil, nil
	if t.db.prepared == nil {
		t.db.prepared = map[string]*prepared{}
	}
	t.db.prepared[name] = &prepared{txn: &p, Prepared: kv.Prepared{Name: []byte(name), At: t.db.now(), User: t.opts.Prepare.User,
		Gateway: t.db.node}}
	t.db.txns[&p] = struct{}{}
	delete(t.db.txns, t)
	t.done = true
	return nil
}

// prepared is a transaction that stands.
type prepared struct {
	kv.Prepared
	*txn
}

// Prepared implements kv.Preparer.
func (d *DB) Prepared(context.Context) ([]kv.Prepared, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []kv.Prepared
	for _, p := range d.prepared {
		all = append(all, p.Prepared)
	}
	slices.SortFunc(all, func(a, b kv.Prepared) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all, nil
}

// EndPrepared implements kv.Preparer.
func (d *DB) EndPrepared(ctx context.Context, name []byte, commit bool) (bool, error) {
	d.mu.Lock()
	p := d.prepared[string(name)]
	delete(d.prepared, string(name))
	d.mu.Unlock()
	if p == nil {
		return false, nil
	}
	if !commit {
		p.txn.Rollback(ctx)
		return true, nil
	}
	_, err := p.txn.Commit(ctx)
	return true, err
}
