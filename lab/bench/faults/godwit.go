package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
)

// The systems that a Bed can run.
const (
	Godwit = "godwit"
	Etcd   = "etcd"
	Galera = "galera"
	// GaleraQuick is Galera that suspects a silent node after one second instead of five.
	GaleraQuick = "galera-1s"
)

const godwitPort = 7400

// startLimit is how long a server may take to come up.
const startLimit = time.Minute

// godwit is this program at all sites.
type godwit struct {
	bed      *Bed
	counters counters
	entries  []*entries
	fillers  int // rows of table filler
}

func newGodwit(b *Bed) *godwit { return &godwit{bed: b, counters: counters{bed: b}, fillers: 4000} }

func (g *godwit) name() string { return Godwit }

// clockFile holds how far the clock of a site is off, in nanoseconds.
func (s *site) clockFile() string { return filepath.Join(s.bed.o.Dir, "clock-"+s.name) }

// setClock has the node's clock be off.
func (s *site) setClock(off time.Duration) error {
	// A file that is replaced is never read by half.
	next := s.clockFile() + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d\n", int64(off)), 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.clockFile())
}

func (g *godwit) start(_ context.Context, s *site) error {
	if _, err := os.Stat(s.clockFile()); err != nil {
		if err := s.setClock(0); err != nil {
			return err
		}
	}
	return s.run(g.bed.o.Command("start", "--insecure", "--insecure-anywhere",
		"--region", s.name, "--store", s.disk.path("godwit"), "--cache-mb", "8",
		"--listen", fmt.Sprintf("%s:%d", s.in.IP, godwitPort), "--sql-listen", fmt.Sprintf("127.0.0.1:%d", mysqlPort),
		"--join", fmt.Sprintf("%s:%d", g.bed.sites[0].in.IP, godwitPort), "--log-level", "info",
		"--clock-source", "fixed", "--clock-offset-file", s.clockFile()), nil)
}

func (g *godwit) ready(ctx context.Context, s *site) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// call asks a site's node over HTTP; ask is nil for GET.
func (g *godwit) call(ctx context.Context, s *site, path string, ask, answer any) error {
	method, body := http.MethodGet, []byte(nil)
	if ask != nil {
		var err error
		if body, err = json.Marshal(ask); err != nil {
			return err
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s:%d%s", s.in.IP, godwitPort, path),
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	if ask != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c := s.http()
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(res.Body).Decode(&raw); err != nil {
		return err
	}
	var failed struct{ Error string }
	if json.Unmarshal(raw, &failed) == nil && failed.Error != "" {
		return errors.New(failed.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(raw, answer)
}

// statusLimit is more than a node takes that waits for the answer of another one.
const statusLimit = 3 * time.Second

// status asks the first site that answers.
func (g *godwit) status(ctx context.Context) (st cluster.Status, err error) {
	var errs []error
	for _, s := range g.bed.sites {
		one, cancel := context.WithTimeout(ctx, statusLimit)
		err := g.call(one, s, cluster.PathStatus, nil, &st)
		cancel()
		if err == nil {
			return st, nil
		}
		errs = append(errs, err)
	}
	return st, errors.Join(errs...)
}

// settled returns nil if every group is led from its home and the meta group from A, where it is
// sent if need be. The faults strike A as the region of the meta group's leader.
func (g *godwit) settled(ctx context.Context) error {
	st, err := g.status(ctx)
	if err != nil {
		return err
	}
	if len(st.Nodes) != len(Regions) || len(st.Groups) == 0 {
		return errors.New("the cluster is incomplete")
	}
	at := map[base.NodeID]string{}
	for _, n := range st.Nodes {
		at[n.ID] = n.Region
		switch {
		case !n.Live:
			return fmt.Errorf("the node of %s is not alive", n.Region)
		case n.Clock != nil && n.Clock.Mode != "gclock":
			return fmt.Errorf("the clock mode of %s is %s", n.Region, n.Clock.Mode)
		}
	}
	for i := range st.Groups {
		x := &st.Groups[i]
		if !x.Serving {
			return fmt.Errorf("group %s is not served", x.Name)
		}
		if want := x.Home; want != "" && at[x.Leader] != want {
			return fmt.Errorf("group %s is not led from %s", x.Name, want)
		}
		if x.Name == "meta" && at[x.Leader] != Regions[0] {
			for id, r := range at {
				if r == Regions[0] {
					err = g.call(ctx, g.bed.sites[0], cluster.PathLeader, cluster.LeaderRequest{Group: x.Name, Node: id}, nil)
				}
			}
			return errors.Join(errors.New("the meta group is not led from A"), err)
		}
	}
	return nil
}

// Ids of rows: a hundred for each region, with one for each other region's home.
func rowID(region, home int) int { return region*100 + home }

func (g *godwit) prepare(ctx context.Context) error {
	first := g.bed.sites[0]
	for _, s := range g.bed.sites {
		if err := g.start(ctx, s); err != nil {
			return err
		}
	}
	made := false
	if err := first.await(ctx, startLimit, func(ctx context.Context) error {
		if !made {
			if err := g.call(ctx, first, join.PathInit, join.InitRequest{Shards: 2, Expect: len(Regions)}, nil); err != nil {
				return err
			}
			made = true
		}
		return g.settled(ctx)
	}); err != nil {
		return err
	}
	for _, s := range g.bed.sites {
		if err := s.await(ctx, startLimit, func(ctx context.Context) error { return g.ready(ctx, s) }); err != nil {
			return err
		}
	}
	if err := first.exec(ctx, "", "CREATE DATABASE faults"); err != nil {
		return err
	}
	if err := first.exec(ctx, "faults",
		"CREATE TABLE own (id INT PRIMARY KEY, n BIGINT NOT NULL)",
		"CREATE TABLE entries (id BIGINT AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL, region INT NOT NULL, "+
			"value BIGINT NOT NULL)",
		"CREATE TABLE turns (n BIGINT PRIMARY KEY, region INT NOT NULL, value BIGINT NOT NULL)",
		"CREATE TABLE globals (id INT PRIMARY KEY, n BIGINT NOT NULL) LOCALITY GLOBAL",
		"CREATE TABLE masters (id INT PRIMARY KEY, n BIGINT NOT NULL) LOCALITY MULTI MASTER",
		"CREATE TABLE asyncs (id INT PRIMARY KEY, n BIGINT NOT NULL) REPLICATION ASYNC",
		"CREATE TABLE filler (id INT PRIMARY KEY, v VARCHAR(1100) NOT NULL)",
	); err != nil {
		return err
	}
	return g.rows(ctx)
}

// rows inserts all rows where they belong, and pins them there.
func (g *godwit) rows(ctx context.Context) error {
	for home, s := range g.bed.sites {
		var q []string
		for region := range Regions {
			q = append(q, fmt.Sprintf("INSERT INTO own VALUES (%d, 0)", rowID(region, home)))
		}
		for _, t := range []string{"globals", "masters", "asyncs"} {
			q = append(q, fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", t, rowID(home, home)))
		}
		if err := s.exec(ctx, "faults", q...); err != nil {
			return err
		}
	}
	// Random bytes, which do not compress, so that they are in many blocks of many files.
	for i := 0; i < g.fillers; i += 500 {
		q := "INSERT INTO filler VALUES "
		for j := range 500 {
			if j > 0 {
				q += ", "
			}
			q += fmt.Sprintf("(%d, '%s')", i+j, noise(i+j, 1000))
		}
		if err := g.bed.sites[0].exec(ctx, "faults", q); err != nil {
			return err
		}
	}
	return g.bed.sites[0].exec(ctx, "faults", "UPDATE own__homes SET pinned = TRUE", "UPDATE asyncs__homes SET pinned = TRUE")
}

// noise is text that follows from a number.
func noise(seed, size int) string {
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	b := make([]byte, size)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[x>>58]
	}
	return string(b)
}

func (g *godwit) streams() []*stream {
	var out []*stream
	for i, s := range g.bed.sites {
		add := func(kind, of, table string, home int, strong bool) {
			st, err := g.counters.clients(s, kind, of, table, rowID(i, home), strong)
			if err != nil {
				panic(err) // the address is a constant
			}
			out = append(out, st...)
		}
		add(Own, "", "own", i, true)
		for home, of := range Regions {
			if home != i {
				add(Foreign, of, "own", home, true)
			}
		}
		add(Global, "", "globals", i, true)
		add(MultiMaster, "", "masters", i, false)
		add(Async, "", "asyncs", i, true)

		for _, kind := range []string{Inserts, Turns} {
			e := &entries{site: s, turns: kind == Turns, sent: map[int64]outcome{}}
			g.entries = append(g.entries, e)
			db, err := s.open("faults")
			if err != nil {
				panic(err) // as above
			}
			db.SetMaxOpenConns(1)
			out = append(out, &stream{region: s.name, kind: kind, write: true,
				do: func(ctx context.Context) (outcome, error) { return e.insert(ctx, db) }})
		}
	}
	return out
}

func (g *godwit) lost(ctx context.Context) error {
	errs := []error{g.counters.lost(ctx)}
	for _, e := range g.entries {
		for _, s := range g.bed.sites {
			errs = append(errs, e.compare(ctx, s))
		}
	}
	return errors.Join(errs...)
}
