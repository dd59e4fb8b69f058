package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/kv"
)

// patience ends a test that hangs. What is waited for takes seconds, and longer on a busy machine.
const patience = 3 * time.Minute

// until polls cond, which returns why it does not hold yet.
func until(t *testing.T, what string, cond func() string) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		why := cond()
		if why == "" {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s: %s", what, why)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *proc) status(t *testing.T) *cluster.Status {
	t.Helper()
	res, err := admin(t).Get("https://" + p.n.Addr() + cluster.PathStatus)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s := new(cluster.Status)
	if err := json.NewDecoder(res.Body).Decode(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *proc) decommission(t *testing.T, id base.NodeID) error {
	t.Helper()
	return p.post(t, cluster.PathDecommission, fmt.Sprintf(`{"node":%d}`, id))
}

// post asks the node to do something; the error is why it does not.
func (p *proc) post(t *testing.T, path, q string) error {
	t.Helper()
	res, err := admin(t).Post("https://"+p.n.Addr()+path, "application/json", strings.NewReader(q))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var r join.InitReply
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Error != "" {
		return fmt.Errorf("%s", r.Error)
	}
	return nil
}

// settled waits until all groups have the members of the topology, led from home, and nothing is
// wrong.
func (p *proc) settled(t *testing.T) *cluster.Status {
	t.Helper()
	var s *cluster.Status
	d := until(t, "the cluster does not settle", func() string {
		s = p.status(t)
		return strings.Join(s.Problems, "\n")
	})
	t.Logf("settled after %v", d.Round(10*time.Millisecond))
	return s
}

// add starts one more node and waits until it serves.
func (w *world) add(t *testing.T, region string) *proc {
	t.Helper()
	var join []string
	for _, p := range w.procs {
		if p.up() {
			join = append(join, p.n.Addr())
		}
	}
	p := &proc{cfg: Config{Region: region, Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		Join: join, tune: w.tune}}
	p.start(t)
	p.ready(t)
	w.procs = append(w.procs, p)
	return p
}

// world is a cluster under load.
type world struct {
	cfgs
	procs []*proc
}

func newWorld(t *testing.T, c cfgs, regions ...string) *world {
	t.Helper()
	w := &world{cfgs: c, procs: newProcsOf(t, c, regions...)}
	initCluster(t, w.procs[0].n.Addr(), len(regions))
	for _, p := range w.procs {
		p.ready(t)
	}
	t.Cleanup(func() {
		for _, p := range w.procs {
			if p.up() {
				p.stop(t)
			}
		}
	})
	return w
}

// load is a number of clients, each of which, over and over, appends a row and counts
// it in a row of its own and in one that all share, in one transaction.
type load struct {
	w      *world
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	client []*client
	bad    []string
	begun  time.Time
}

type client struct {
	p       *proc
	table   base.TableID
	acked   map[int]bool
	unknown map[int]bool // the outcome could not be learnt
	last    time.Time    // of the newest acknowledgement
	gap     time.Duration
	codes   map[base.Code]int
}

// shared is the row in which the clients of all regions count, of each region one.
func shared(r base.RegionID) base.Key { return key(base.MakeTableID(600, r), 1, 0) }

const sharedEvery = 4 // transactions

func startLoad(t *testing.T, w *world, perNode int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{w: w, cancel: cancel, begun: time.Now()}
	t.Cleanup(func() { cancel(); l.wg.Wait() })
	for range perNode {
		for _, p := range w.procs {
			l.start(ctx, p)
		}
	}
	until(t, "the load does not begin", func() string {
		for i := range l.client {
			if l.acked(i) == 0 {
				return fmt.Sprintf("client %d has no transaction acknowledged", i)
			}
		}
		return ""
	})
	return l
}

func (l *load) start(ctx context.Context, p *proc) {
	c := &client{p: p, acked: map[int]bool{}, unknown: map[int]bool{}, codes: map[base.Code]int{}, last: time.Now()}
	l.mu.Lock()
	c.table = base.MakeTableID(uint64(700+len(l.client)), p.db().Region())
	l.client = append(l.client, c)
	l.mu.Unlock()
	l.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			db := p.db()
			if db == nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			life, end := context.WithCancel(ctx)
			stop := context.AfterFunc(p.life(), end)
			l.one(life, c, db, i)
			stop()
			end()
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func (l *load) one(ctx context.Context, c *client, db kv.DB, i int) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.transact(ctx, c, db, i) }() // a stopped node may hold it up
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(time.Second): // a dead process would not say either
			err = base.Errorf(base.CodeAmbiguous, "no answer")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		c.acked[i] = true
		c.gap = max(c.gap, time.Since(c.last))
		c.last = time.Now()
		return
	}
	code := base.CodeOf(err)
	c.codes[code]++
	switch {
	case base.Retryable(err):
	case code == base.CodeAmbiguous || code == base.CodeCanceled:
		c.unknown[i] = true
	default:
		l.bad = append(l.bad, err.Error())
	}
}

// transact appends row i and counts it.
func (l *load) transact(ctx context.Context, c *client, db kv.DB, i int) error {
	shards := db.Topology().Shards
	_, err := kv.Run(ctx, db, kv.Options{}, func(x kv.Txn) error {
		count := []base.Key{key(c.table, 1, 0)}
		if i%sharedEvery == 0 { // they are hot
			count = append(count, shared(base.RegionID(1+i/sharedEvery%len(db.Topology().Regions))))
		}
		rows, err := x.Get(ctx, count, kv.LockExclusive)
		if err != nil {
			return err
		}
		for _, r := range rows {
			n := 0
			if r.Value != nil {
				fmt.Sscan(string(r.Value), &n)
			}
			x.Put(r.Key, []byte(fmt.Sprint(n+1)), 0)
		}
		return x.Insert(key(c.table, base.ShardID(1+i%shards), 1+i), []byte(fmt.Sprint("row ", i)), 0)
	})
	return err
}

func (l *load) acked(i int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.client[i].acked)
}

// progress waits until every client whose node is up has been answered again, and returns how long
// it took.
func (l *load) progress(t *testing.T) time.Duration {
	t.Helper()
	before := map[int]int{}
	// counts in every shared row
	enough := 1 + sharedEvery*len(l.w.procs[0].n.Cluster().Topology().Regions)
	for i := range l.client {
		before[i] = l.acked(i)
	}
	return until(t, "the load makes no progress", func() string {
		for i, c := range l.client {
			if c.p.up() && l.acked(i) < before[i]+enough {
				return fmt.Sprintf("client %d at node %d", i, c.p.n.ID())
			}
		}
		return ""
	})
}

// finish stops the load and checks through every node that is up that what was acknowledged is
// there, once, and counted.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.cancel()
	l.wg.Wait()
	for _, e := range l.bad {
		t.Errorf("the load saw: %s", e)
	}
	acked, codes := 0, map[base.Code]int{}
	for i, c := range l.client {
		acked += len(c.acked)
		for k, n := range c.codes {
			codes[k] += n
		}
		t.Logf("client %d: %d acknowledged, %d unknown, longest pause %v", i, len(c.acked), len(c.unknown),
			c.gap.Round(10*time.Millisecond))
	}
	t.Logf("load of %v: %d acknowledged, errors %v", time.Since(l.begun).Round(time.Second), acked, codes)
	for _, p := range l.w.procs {
		if p.up() {
			l.check(t, p)
		}
	}
}

func (l *load) check(t *testing.T, p *proc) {
	t.Helper()
	db := p.db()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	counts := 0
	for i, c := range l.client {
		var counted int
		var have map[int]bool
		if _, err := kv.Run(ctx, db, kv.Options{ReadOnly: true}, func(x kv.Txn) error {
			counted, have = 0, map[int]bool{}
			for s := range db.Topology().Shards {
				prefix := base.IndexPrefix(base.ShardID(s+1), c.table, 0, 0)
				req := &kv.ScanRequest{Spans: []base.Span{{Start: prefix, End: prefix.PrefixEnd()}}}
				for req != nil {
					res, err := x.Scan(ctx, *req)
					if err != nil {
						return err
					}
					for _, r := range res.Rows {
						if string(r.Key) == string(key(c.table, 1, 0)) {
							fmt.Sscan(string(r.Value), &counted)
							continue
						}
						n := -1
						fmt.Sscanf(string(r.Value), "row %d", &n)
						have[n] = true
					}
					req = res.Next
				}
			}
			return nil
		}); err != nil {
			t.Errorf("node %d: client %d cannot be checked: %v", p.n.ID(), i, err)
			continue
		}
		for n := range have {
			if n%sharedEvery == 0 {
				counts++
			}
			if !c.acked[n] && !c.unknown[n] {
				t.Errorf("node %d: client %d: row %d is there, but was refused for certain", p.n.ID(), i, n)
			}
		}
		lost := slices.DeleteFunc(slices.Sorted(maps.Keys(c.acked)), func(n int) bool { return have[n] })
		if len(lost) > 0 {
			t.Errorf("node %d: client %d: %d acknowledged rows are lost, the first are %v", p.n.ID(), i, len(lost),
				lost[:min(len(lost), 5)])
		}
		if counted != len(have) {
			t.Errorf("node %d: client %d: %d rows, but %d were counted", p.n.ID(), i, len(have), counted)
		}
	}
	var keys []base.Key
	for _, r := range db.Topology().Regions {
		keys = append(keys, shared(r.ID))
	}
	rows, err := db.Begin(kv.Options{ReadOnly: true}).Get(ctx, keys, kv.LockNone)
	if err != nil {
		t.Errorf("node %d: %v", p.n.ID(), err)
		return
	}
	total := 0
	for _, r := range rows {
		n := 0
		fmt.Sscan(string(r.Value), &n)
		total += n
	}
	if total != counts {
		t.Errorf("node %d: the shared rows count %d, but %d transactions did", p.n.ID(), total, counts)
	}
}

// shardsAt is how many data shards a node holds.
func shardsAt(s *cluster.Status, id base.NodeID) int {
	n := 0
	for _, set := range s.Topology.Replicas {
		if slices.Contains(set, id) {
			n++
		}
	}
	return n
}
