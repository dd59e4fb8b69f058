package group

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sort"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// sink is a state machine that does next to nothing.
type sink struct{}

func (sink) Apply(*store.Batch, []Entry) ([]any, error)               { return nil, nil }
func (sink) Applied(uint64)                                           {}
func (sink) Leading(uint64, uint64)                                   {}
func (sink) Revoking(_ uint64, _ base.NodeID, done func(bool, error)) { done(false, nil) }
func (sink) Stopped(uint64)                                           {}
func (sink) SnapshotInstalled(uint64)                                 {}

// benchHosts starts n nodes with groups on real directories.
func benchHosts(b testing.TB, n int, groups []base.GroupID, nosync bool) (hosts []*Host, closeAll func()) {
	net := wan.NewNetwork(wan.NetOptions{})
	var closers []func()
	var ids []base.NodeID
	for i := 1; i <= n; i++ {
		ids = append(ids, base.NodeID(i))
	}
	for _, id := range ids {
		s, err := store.Open(store.Options{Dir: b.TempDir(), CacheMB: 8, NoSync: nosync, Logger: slog.New(slog.DiscardHandler)})
		must(b, err)
		tr := net.Join(id, 1)
		for _, o := range ids {
			tr.SetPeer(o, "", 1)
		}
		h, err := NewHost(HostOptions{Self: id, Store: s, Transport: tr})
		must(b, err)
		for i, g := range groups {
			_, err := h.Open(g, Conf{Voters: ids}, sink{}, func() base.NodeID { return ids[i%len(ids)] })
			must(b, err)
		}
		must(b, tr.Start())
		must(b, h.Start())
		hosts = append(hosts, h)
		closers = append(closers, func() { h.Close(); tr.Close(); s.Close() })
	}
	for i, g := range groups {
		for {
			if _, ok := hosts[i%len(ids)].Group(g).Leads(); ok {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return hosts, func() {
		for _, f := range closers {
			f()
		}
		net.Close()
	}
}

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkPropose: commits of 200 bytes in one process, on disks of its own directory.
func BenchmarkPropose(b *testing.B) {
	for _, nosync := range []bool{false, true} {
		for _, voters := range []int{1, 3} {
			for _, proposers := range []int{1, 32} {
				b.Run(fmt.Sprintf("nosync=%v/voters=%d/proposers=%d", nosync, voters, proposers), func(b *testing.B) {
					hosts, done := benchHosts(b, voters, []base.GroupID{testGroup}, nosync)
					defer done()
					g := hosts[0].Group(testGroup)
					body := make([]byte, 200)
					var mu sync.Mutex
					var took []time.Duration
					b.ResetTimer()
					c0 := cpu()
					var wg sync.WaitGroup
					for p := range proposers {
						wg.Go(func() {
							var mine []time.Duration
							for i := p; i < b.N; i += proposers {
								start := time.Now()
								if _, _, err := g.Propose(context.Background(),
									&wire.Command{Ts: uint64(i), Refuse: body}, 0); err != nil {
									b.Error(err)
									return
								}
								mine = append(mine, time.Since(start))
							}
							mu.Lock()
							took = append(took, mine...)
							mu.Unlock()
						})
					}
					wg.Wait()
					b.StopTimer()
					sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
					b.ReportMetric(float64((cpu()-c0).Microseconds())/float64(b.N), "cpu-us/op")
					if len(took) > 0 {
						b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
						b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				})
			}
		}
	}
}

// BenchmarkIdle: the CPU of a process with 5 nodes of 30 groups each, nobody writing.
func BenchmarkIdle(b *testing.B) {
	var groups []base.GroupID
	for s := 1; s <= 6; s++ {
		for r := 1; r <= 5; r++ {
			groups = append(groups, base.DataGroup(base.ShardID(s), base.RegionID(r)))
		}
	}
	_, done := benchHosts(b, 5, groups, false)
	defer done()
	time.Sleep(3 * time.Second)
	runtime.GC()
	b.ResetTimer()
	c0 := cpu()
	const span = 10 * time.Second
	for range b.N {
		time.Sleep(span)
	}
	b.ReportMetric(100*float64(cpu()-c0)/float64(span)/float64(b.N), "%cpu")
}
