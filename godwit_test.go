package godwit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/godwitdb/godwit"
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/matrix"
)

func openLocal(t *testing.T, regions int) *godwit.Cluster {
	t.Helper()
	m, err := matrix.Default(regions)
	if err != nil {
		t.Fatal(err)
	}
	c, err := godwit.OpenLocal(t.Context(), godwit.LocalConfig{Matrix: m, Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestCountersFromAllRegions(t *testing.T) {
	c := openLocal(t, 3)
	ctx := t.Context()
	counters := godwit.Space("counters")
	var wg sync.WaitGroup
	for i, n := range c.Nodes() {
		wg.Go(func() {
			for range 3 {
				if _, err := n.Client().Update(ctx, func(x *godwit.Txn) error {
					for _, key := range []string{"shared", fmt.Sprint("own/", i)} {
						v, _, err := x.Get(ctx, counters, key)
						if err != nil {
							return err
						}
						k, _ := strconv.Atoi(string(v))
						x.Put(counters, key, []byte(strconv.Itoa(k+1)))
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, n := range c.Nodes() {
		got := map[string]string{}
		if err := n.Client().View(ctx, func(x *godwit.Txn) error {
			clear(got)
			return x.Scan(ctx, counters, "", func(k string, v []byte) bool {
				got[k] = string(v)
				return true
			})
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 4 || got["shared"] != "9" || got["own/0"] != "3" || got["own/2"] != "3" {
			t.Errorf("node %d sees %v", n.ID(), got)
		}
	}
	_, err := c.Nodes()[1].Client().Update(ctx, func(x *godwit.Txn) error { return x.Insert(counters, "shared", nil) })
	if base.CodeOf(err) != base.CodeExists {
		t.Errorf("insert of a present key: %v", err)
	}
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "godwit")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	regions, err := matrix.Default(2)
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := godwit.OpenLocal(ctx, godwit.LocalConfig{Matrix: regions, Dir: dir}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close(ctx)
	users := godwit.Space("users")
	virginia, oregon := cluster.Nodes()[0].Client(), cluster.Nodes()[1].Client()
	if _, err := virginia.Update(ctx, func(t *godwit.Txn) error {
		t.Put(users, "42/name", []byte("Ada"))
		t.Put(users, "42/city", []byte("London"))
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	err = oregon.View(ctx, func(t *godwit.Txn) error {
		return t.Scan(ctx, users, "42/", func(key string, value []byte) bool {
			fmt.Println(key, string(value))
			return true
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 42/city London
	// 42/name Ada
}
