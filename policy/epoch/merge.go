package epoch

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/filter"
)

// Rule is what conflicts within an epoch: those that list reads have them validated.
var Rule = filter.Rule{Reads: true}

// MaxLag is how many epochs a snapshot may lie before the epoch that a
// transaction is submitted to: 11 minutes of epochs of 10 ms.
const MaxLag = 1 << 16

// State is a replica's state after all epochs before the one being merged.
type State interface {
	// Newest is the epoch that last wrote or deleted a key, 0 if none has.
	Newest(key base.Key) (uint64, error)
	// Touched reports whether an epoch after the one given wrote or deleted a key of the span.
	Touched(span base.Span, after uint64) (bool, error)
}

// Digest stands for everything that happened up to an epoch.
type Digest [sha256.Size]byte

// ParseDigest takes a digest that another node has sent.
func ParseDigest(b []byte) (d Digest, err error) {
	if len(b) != len(d) {
		return d, base.Errorf(base.CodeInvalid, "a digest of epochs has %d bytes, not %d", len(b), len(d))
	}
	return Digest(b), nil
}

// Merged is what an epoch does.
type Merged struct {
	Epoch     uint64
	Committed []base.TxnID   // best first
	Writes    []filter.Write // by key; each key once
	Digest    Digest
}

// Merge makes the outcome of an epoch from its batches: one of every member, in
// any order, filtered or not, whole or in slices. prev is the digest before it.
func Merge(e uint64, batches []filter.Batch, st State, prev Digest) (*Merged, error) {
	m := &Merged{Epoch: e}
	for _, w := range filter.Winners(Rule, batches) {
		stale, err := stale(e, &w, st)
		if err != nil {
			return nil, err
		}
		if stale {
			continue
		}
		m.Committed = append(m.Committed, w.ID)
		for _, p := range w.Pieces {
			for i := range p.Writes {
				if !p.Writes[i].Null {
					m.Writes = append(m.Writes, p.Writes[i])
				}
			}
		}
	}
	// Committed transactions write no key in common; a transaction that came twice does.
	slices.SortFunc(m.Writes, func(a, b filter.Write) int { return cmp.Compare(a.Key, b.Key) })
	m.Writes = slices.CompactFunc(m.Writes, func(a, b filter.Write) bool { return a.Key == b.Key })
	m.Digest = digest(prev, m)
	return m, nil
}

// stale reports whether something that a transaction rests on has changed since its snapshot.
func stale(e uint64, w *filter.Winner, st State) (bool, error) {
	for _, p := range w.Pieces {
		if p.Snapshot >= e || p.Snapshot+MaxLag < e {
			return true, nil
		}
		newer := func(key string) (bool, error) {
			at, err := st.Newest(base.Key(key))
			return at > p.Snapshot, err
		}
		for i := range p.Writes {
			if yes, err := newer(p.Writes[i].Key); yes || err != nil {
				return yes, err
			}
		}
		for _, k := range p.Reads {
			if yes, err := newer(k); yes || err != nil {
				return yes, err
			}
		}
		for _, s := range p.Ranges {
			if yes, err := st.Touched(s, p.Snapshot); yes || err != nil {
				return yes, err
			}
		}
	}
	return false, nil
}

// digest chains what an epoch did to what was before.
func digest(prev Digest, m *Merged) Digest {
	h := sha256.New()
	var n [8]byte
	num := func(v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	h.Write(prev[:])
	num(m.Epoch)
	num(uint64(len(m.Committed)))
	for _, id := range m.Committed {
		h.Write(id[:])
	}
	for _, w := range m.Writes {
		num(uint64(len(w.Key)))
		h.Write([]byte(w.Key))
		if w.Del {
			num(1<<64 - 1)
			continue
		}
		num(uint64(len(w.Value)))
		h.Write(w.Value)
	}
	var d Digest
	h.Sum(d[:0])
	return d
}
