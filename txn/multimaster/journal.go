package multimaster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// journal is what a node must not forget of epochs, in its store: records of the
// shard's only group, numbered kind and epoch, and a local one for the view.
type journal struct{ s *store.Store }

var group = base.DataGroup(base.EpochShard, 0)

// Kinds of records, in the order of their keys.
const (
	kindHeld    byte = 1 + iota // an epoch with the batches of all members
	kindOwn                     // this node's batch
	kindApplied                 // how far the rows go
	kindCut                     // up to where the log has been forgotten
)

const localView = "epoch/view"

// place is what the node has promised and where it stands.
type place struct {
	View   epoch.View `json:"view"`
	Sealed bool       `json:"sealed"`
	// Loading: the rows are being replaced by those of another node.
	Loading bool `json:"loading,omitempty"`
	// Least is the last epoch that this node has said it holds in the view. Its disk may have lost
	// a part of it, so rows are copied from a node that has exposed that epoch. If a later view is
	// in force, it was agreed upon without this node, which does not seal while it loads; then all
	// epochs that count are below that view's start.
	Least uint64 `json:"least,omitempty"`
}

func recordID(kind byte, e uint64) (id base.TxnID) {
	id[0] = kind
	binary.BigEndian.PutUint64(id[8:], e)
	return id
}

func epochOf(id base.TxnID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

func (j *journal) loadPlace() (p place, err error) {
	b, ok, err := j.s.GetLocal(localView)
	if err != nil || !ok {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, base.Errorf(base.CodeCorrupt, "the record of the view of epochs cannot be read: %v", err)
	}
	return p, nil
}

func (j *journal) savePlace(p place) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return j.s.SetLocal(localView, b, true)
}

// localAside is where records are kept while the shard is cleared.
const localAside = "epoch/aside"

// setAside keeps records of a view through the clearing of the shard.
func (j *journal) setAside(view uint64, records []*wire.EpochRecord) error {
	b, err := (&wire.EpochAnswer{View: view, Records: records}).MarshalVT()
	if err != nil {
		return err
	}
	return j.s.SetLocal(localAside, b, true)
}

// later are the records of a view after an epoch, also those that are set aside.
func (j *journal) later(view, after uint64) ([]*wire.EpochRecord, error) {
	last, err := j.last()
	if err != nil {
		return nil, err
	}
	found := map[uint64]*wire.EpochRecord{}
	if b, ok, err := j.s.GetLocal(localAside); err != nil {
		return nil, err
	} else if ok {
		var a wire.EpochAnswer
		if err := a.UnmarshalVT(b); err != nil {
			return nil, base.Errorf(base.CodeCorrupt, "the epochs that were set aside cannot be read: %v", err)
		}
		for _, r := range a.Records {
			if a.View == view && r.Epoch > after {
				found[r.Epoch] = r
			}
		}
	}
	if err := j.held(after, last, 0, func(r *wire.EpochRecord) error {
		found[r.Epoch] = r
		return nil
	}); err != nil {
		return nil, err
	}
	var out []*wire.EpochRecord
	for _, num := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[num])
	}
	return out, nil
}

// own makes this node's batch durable.
func (j *journal) own(e uint64, frame []byte) error {
	b := j.s.NewBatch()
	defer b.Close()
	b.SetTxn(group, recordID(kindOwn, e), frame)
	return b.Commit(true)
}

// hold makes epochs durable, all or none.
func (j *journal) hold(records []*wire.EpochRecord) error {
	b := j.s.NewBatch()
	defer b.Close()
	if err := setHeld(b, records); err != nil {
		return err
	}
	return b.Commit(true)
}

func setHeld(b *store.Batch, records []*wire.EpochRecord) error {
	for _, r := range records {
		v, err := r.MarshalVT()
		if err != nil {
			return err
		}
		b.SetTxn(group, recordID(kindHeld, r.Epoch), v)
		b.DelTxn(group, recordID(kindOwn, r.Epoch))
	}
	return nil
}

// held reads the records of epochs above after, up to to, until they have maxBytes (0: all of
// them).
func (j *journal) held(after, to uint64, maxBytes int, fn func(*wire.EpochRecord) error) error {
	if to <= after {
		return nil
	}
	bytes := 0
	err := j.s.ScanTxns(group, recordID(kindHeld, after+1), recordID(kindHeld, to+1), func(id base.TxnID, rec []byte) error {
		r := &wire.EpochRecord{}
		if err := r.UnmarshalVT(rec); err != nil { // copies
			return base.Errorf(base.CodeCorrupt, "the record of epoch %d cannot be read: %v", epochOf(id), err)
		}
		if err := fn(r); err != nil {
			return err
		}
		if bytes += len(rec); maxBytes > 0 && bytes >= maxBytes {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		return nil
	}
	return err
}

var errEnough = errors.New("enough")

// last is the last epoch of the log, 0 if it is empty.
func (j *journal) last() (last uint64, err error) {
	err = j.s.ScanTxns(group, recordID(kindHeld, 0), recordID(kindOwn, 0), func(id base.TxnID, _ []byte) error {
		last = epochOf(id)
		return nil
	})
	return last, err
}

// discard forgets epochs above one: a view has ended without them.
func (j *journal) discard(after uint64) error {
	var gone []base.TxnID
	note := func(id base.TxnID, _ []byte) error { gone = append(gone, id); return nil }
	if err := j.s.ScanTxns(group, recordID(kindHeld, after+1), recordID(kindOwn, 0), note); err != nil {
		return err
	}
	if err := j.s.ScanTxns(group, recordID(kindOwn, 0), recordID(kindApplied, 0), note); err != nil {
		return err
	}
	if len(gone) == 0 {
		return nil
	}
	b := j.s.NewBatch()
	defer b.Close()
	for _, id := range gone {
		b.DelTxn(group, id)
	}
	return b.Commit(true)
}

// truncate forgets epochs up to one, which the rows include.
func (j *journal) truncate(to uint64) error {
	b := j.s.NewBatch()
	defer b.Close()
	b.DelTxnRange(group, recordID(kindHeld, to+1))
	setCut(b, to)
	return b.Commit(false)
}

func setCut(b *store.Batch, to uint64) {
	b.SetTxn(group, recordID(kindCut, 0), binary.BigEndian.AppendUint64(nil, to))
}

// cut is the epoch up to which the log has been forgotten.
func (j *journal) cut() (uint64, error) {
	v, ok, err := j.s.GetTxn(group, recordID(kindCut, 0))
	if err != nil || !ok || len(v) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// applied says how far the rows go.
func (j *journal) applied() (e uint64, d epoch.Digest, err error) {
	v, ok, err := j.s.GetTxn(group, recordID(kindApplied, 0))
	if err != nil || !ok {
		return 0, d, err
	}
	if len(v) != 8+len(d) {
		return 0, d, base.Errorf(base.CodeCorrupt, "the record of the epochs applied has %d bytes", len(v))
	}
	copy(d[:], v[8:])
	return binary.BigEndian.Uint64(v), d, nil
}

func setApplied(b *store.Batch, e uint64, d epoch.Digest) {
	b.SetTxn(group, recordID(kindApplied, 0), append(binary.BigEndian.AppendUint64(nil, e), d[:]...))
}

// apply changes the rows by an epoch's outcome. The log has it already, so it need not be synced.
func (j *journal) apply(m *epoch.Merged) error {
	b := j.s.NewBatch()
	defer b.Close()
	for i := range m.Writes {
		w := &m.Writes[i]
		b.PutVersion(store.Version{Key: base.Key(w.Key), TS: base.Timestamp(m.Epoch), Tombstone: w.Del, Value: w.Value,
			Writer: base.GroupIndex{Region: 1, Index: m.Epoch}})
	}
	setApplied(b, m.Epoch, m.Digest)
	return b.Commit(false)
}

// rows is the state that merging looks at.
type rows struct{ r *store.Reader }

func (s rows) Newest(key base.Key) (uint64, error) {
	v, ok, err := s.r.Newest(key)
	if !ok || err != nil {
		return 0, err
	}
	return uint64(v.TS), nil
}

func (s rows) Touched(span base.Span, after uint64) (bool, error) {
	it := s.r.Iter(span, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for it.Next() {
		if uint64(it.Version().TS) > after {
			return true, nil
		}
	}
	return false, it.Err()
}

// batchesOf decodes the batches of an epoch.
func batchesOf(r *wire.EpochRecord) ([]filter.Batch, error) {
	out := make([]filter.Batch, 0, len(r.Batches))
	for i, data := range r.Batches {
		b, err := decodeBatch(i, data)
		if err != nil {
			return nil, err
		}
		out = append(out, *b)
	}
	return out, nil
}

// decodeBatch takes a batch that may have come from another node.
func decodeBatch(origin int, data []byte) (*filter.Batch, error) {
	b, err := filter.Decode(origin, data)
	if err != nil {
		return nil, err
	}
	for i := range b.Txns {
		for j := range b.Txns[i].Writes {
			if k := b.Txns[i].Writes[j].Key; len(k) <= 2 || !strings.HasPrefix(k, shardPrefix) {
				return nil, base.Errorf(base.CodeInvalid, "batch of node %d: key %s is not one of MULTI MASTER tables",
					origin, base.Key(k))
			}
		}
	}
	return b, nil
}

// shardPrefix begins the keys of the epochs' shard.
var shardPrefix = string(shardStart)
