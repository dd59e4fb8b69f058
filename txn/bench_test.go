package txn

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// one is a single node with real time and an in-memory file system.
func one(b *testing.B) *cluster {
	c := newCluster(b, 1, 1)
	c.ready()
	for i := range 1000 {
		x := c.db(1).Begin(kv.Options{})
		x.Put(key(1, 1, 1, fmt.Sprintf("%06d", i)), make([]byte, 100), 0)
		_, err := x.Commit(b.Context())
		must(b, err)
	}
	b.Cleanup(c.close)
	return c
}

func BenchmarkGet(b *testing.B) {
	for _, lock := range []kv.LockMode{kv.LockNone, kv.LockShared} {
		b.Run(fmt.Sprint("lock=", lock), func(b *testing.B) {
			c := one(b)
			keys := make([]base.Key, 1000)
			for i := range keys {
				keys[i] = key(1, 1, 1, fmt.Sprintf("%06d", i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				x := c.db(1).Begin(kv.Options{ReadOnly: lock == kv.LockNone})
				if _, err := x.Get(b.Context(), keys[i%1000:i%1000+1], lock); err != nil {
					b.Fatal(err)
				}
				if _, err := x.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	c := one(b)
	val := make([]byte, 100)
	keys := make([]base.Key, 1000)
	for i := range keys {
		keys[i] = key(1, 1, 1, fmt.Sprintf("%06d", i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		x := c.db(1).Begin(kv.Options{})
		x.Put(keys[i%1000], val, 0)
		if _, err := x.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
