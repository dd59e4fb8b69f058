package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

var bgctx = context.Background()

// Names of group state records that the store itself owns.
const (
	raftNames    = "raft." // never leaves the node
	localNames   = "local."
	stateHard    = "raft.hard"
	stateConf    = "raft.conf"
	stateTrunc   = "raft.trunc"
	stateApplied = "applied"
)

// get copies the value of an engine key.
func (s *Store) get(key []byte) ([]byte, bool, error) {
	if s.closed.Load() {
		return nil, false, errClosed
	}
	v, c, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, s.wrap(err)
	}
	v = append(make([]byte, 0, len(v)), v...)
	return v, true, s.wrap(c.Close())
}

// GetLocal reads a record of this node that belongs to no group (cluster id, node id, ...).
func (s *Store) GetLocal(name string) ([]byte, bool, error) {
	v, ok := s.mirror.get(name)
	return bytes.Clone(v), ok, nil
}

// SetLocal writes such a record.
func (s *Store) SetLocal(name string, val []byte, sync bool) error {
	if name == localFormat || strings.HasPrefix(name, localShard) || strings.HasPrefix(name, localImport) ||
		strings.HasPrefix(name, localRepair) || strings.HasPrefix(name, localGroup) {
		return base.Errorf(base.CodeInvalid, "local record %q is the store's own", name)
	}
	return s.setLocal(name, val, sync)
}

func (s *Store) setLocal(name string, val []byte, sync bool) error {
	b := s.NewBatch()
	defer b.Close()
	b.set(localKey(name), val)
	return b.Commit(sync)
}

// GetState reads a small record of a group.
func (s *Store) GetState(g base.GroupID, name string) ([]byte, bool, error) {
	return s.get(stateKey(g, name))
}

// SetState writes a small record of a group; nil deletes it. Records are part of the group's
// replicated state: a pure function of its log up to the applied index, and travel in
// snapshots, except those whose name begins with "local.".
func (b *Batch) SetState(g base.GroupID, name string, val []byte) {
	if name == "" || name == stateApplied || strings.HasPrefix(name, raftNames) {
		b.fail(base.Errorf(base.CodeInvalid, "group record %q is the store's own (use SetApplied and Log)", name))
		return
	}
	if val == nil {
		b.del(stateKey(g, name))
		return
	}
	b.set(stateKey(g, name), val)
}

// SetApplied records that the state of g in this batch includes its log up to index.
func (b *Batch) SetApplied(g base.GroupID, index uint64) {
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], index)
	b.set(stateKey(g, stateApplied), v[:])
}

// Applied is the log index up to which the state of g has been applied; 0 for a fresh group.
// After a crash it may lie below what was visible before.
func (s *Store) Applied(g base.GroupID) (uint64, error) {
	v, ok, err := s.get(stateKey(g, stateApplied))
	if err != nil || !ok {
		return 0, err
	}
	if len(v) != 8 {
		return 0, s.corrupt(corruptf("store %s: the applied index of group %s is damaged", s.opts.Dir, g))
	}
	return binary.BigEndian.Uint64(v), nil
}

// Groups lists the groups that have any record here, in order.
func (s *Store) Groups() ([]base.GroupID, error) {
	lo, hi := areaSpan([]byte{areaState})
	it, err := s.newIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, s.wrap(err)
	}
	defer it.Close()
	var gs []base.GroupID
	for ok := it.First(); ok; {
		body, _, good := splitKey(it.Key())
		g, _, fine := groupOf(body)
		if !good || !fine {
			return nil, s.corrupt(corruptf("store %s: a group record has the malformed key %x", s.opts.Dir, it.Key()))
		}
		gs = append(gs, g)
		_, next := areaSpan(groupPrefix(areaState, g))
		ok = it.SeekGE(next)
	}
	return gs, s.wrap(it.Error())
}

// SetTxn writes the record of a transaction in a group (prepared, or its outcome).
func (b *Batch) SetTxn(g base.GroupID, id base.TxnID, rec []byte) { b.set(txnKey(g, id), rec) }

// DelTxn removes a transaction record.
func (b *Batch) DelTxn(g base.GroupID, id base.TxnID) { b.del(txnKey(g, id)) }

// DelTxnRange removes the records of all transactions of g with an id below
// to, hence of all that began before its start time. Call it seldom, for many at once.
func (b *Batch) DelTxnRange(g base.GroupID, to base.TxnID) {
	b.delRange(txnKey(g, base.TxnID{}), txnKey(g, to))
}

// GetTxn reads a transaction record.
func (s *Store) GetTxn(g base.GroupID, id base.TxnID) ([]byte, bool, error) {
	return s.get(txnKey(g, id))
}

// ScanTxns calls fn for the records of g with from <= id < to (a zero to is no bound), in order of
// id, until fn returns an error. rec is valid during the call.
func (s *Store) ScanTxns(g base.GroupID, from, to base.TxnID, fn func(id base.TxnID, rec []byte) error) error {
	_, hi := areaSpan(groupPrefix(areaTxn, g))
	if !to.IsZero() {
		hi = txnKey(g, to)
	}
	it, err := s.newIter(&pebble.IterOptions{LowerBound: txnKey(g, from), UpperBound: hi})
	if err != nil {
		return s.wrap(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		body, _, good := splitKey(it.Key())
		if !good || len(body) != 4+len(base.TxnID{}) {
			return s.corrupt(corruptf("store %s: a transaction record has the malformed key %x", s.opts.Dir, it.Key()))
		}
		rec, err := it.ValueAndErr()
		if err != nil {
			return s.wrap(err)
		}
		if err := fn(base.TxnID(body[4:]), rec); err != nil {
			return err
		}
	}
	return s.wrap(it.Error())
}
