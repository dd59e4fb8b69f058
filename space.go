package godwit

import (
	"context"
	"hash/fnv"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Space is a set of keys with a name of its own. The part of a key before its
// first slash decides where it is stored: keys with the same head lie
// together and commit in one round trip.
type Space string

func (s Space) table() base.TableID {
	h := fnv.New64a()
	h.Write([]byte(s))
	return base.MakeTableID(base.FirstSpace|h.Sum64()>>17, 1)
}

func head(key string) string {
	h, _, _ := strings.Cut(key, "/")
	return h
}

func (s Space) shard(head string, shards int) base.ShardID {
	h := fnv.New32a()
	h.Write([]byte(head))
	return base.ShardID(1 + h.Sum32()%uint32(shards))
}

func (s Space) key(key string, shards int) base.Key {
	return base.AppendBytes(base.IndexPrefix(s.shard(head(key), shards), s.table(), 0, 0), []byte(key))
}

// span is the keys of one shard that begin with prefix.
func (s Space) span(shard base.ShardID, prefix string) base.Span {
	all := base.IndexPrefix(shard, s.table(), 0, 0)
	if prefix == "" {
		return base.Span{Start: all, End: all.PrefixEnd()}
	}
	// The encoding ends in two bytes that the encoding of a longer key lacks.
	p := base.Key(base.AppendBytes(all.Clone(), []byte(prefix)))
	p = p[:len(p)-2]
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// Txn is a transaction of Update or View; not safe for concurrent use.
type Txn struct {
	db   kv.DB
	kv   kv.Txn
	lock kv.LockMode
}

func (t *Txn) shards() int { return t.db.Topology().Shards }

// Get returns the value of a key.
func (t *Txn) Get(ctx context.Context, s Space, key string) (value []byte, found bool, err error) {
	rows, err := t.GetAll(ctx, s, key)
	if err != nil {
		return nil, false, err
	}
	return rows[0], rows[0] != nil, nil
}

// GetAll returns the values of keys in their order, nil where there is none;
// they are fetched together.
func (t *Txn) GetAll(ctx context.Context, s Space, keys ...string) ([][]byte, error) {
	ks := make([]base.Key, len(keys))
	for i, k := range keys {
		ks[i] = s.key(k, t.shards())
	}
	rows, err := t.kv.Get(ctx, ks, t.lock)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(rows))
	for i, r := range rows {
		out[i] = r.Value
	}
	return out, nil
}

// Scan calls fn for every key with a prefix, in order, until it returns false.
// In Update the keys and the gaps between them stay locked.
func (t *Txn) Scan(ctx context.Context, s Space, prefix string, fn func(key string, value []byte) bool) error {
	req := kv.ScanRequest{Lock: t.lock, Merge: true}
	if strings.Contains(prefix, "/") {
		req.Spans = []base.Span{s.span(s.shard(head(prefix), t.shards()), prefix)}
	} else {
		for i := range t.shards() {
			req.Spans = append(req.Spans, s.span(base.ShardID(i+1), prefix))
		}
	}
	for next := &req; next != nil; {
		res, err := t.kv.Scan(ctx, *next)
		if err != nil {
			return err
		}
		for _, r := range res.Rows {
			key, _, err := base.TakeBytes(r.Key[base.IndexPrefixLen:])
			if err != nil {
				return err
			}
			if !fn(string(key), r.Value) {
				return nil
			}
		}
		next = res.Next
	}
	return nil
}

// Put writes a key. A new key gets this client's region as its home.
func (t *Txn) Put(s Space, key string, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t.kv.Put(s.key(key, t.shards()), value, 0)
}

// Insert writes a key that must not exist: Update fails with base.CodeExists if it does.
func (t *Txn) Insert(s Space, key string, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return t.kv.Insert(s.key(key, t.shards()), value, 0)
}

// Delete removes a key. Removing an absent key is no error.
func (t *Txn) Delete(s Space, key string) { t.kv.Delete(s.key(key, t.shards())) }
