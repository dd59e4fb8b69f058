package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
)

// godwitPort is that of the cluster's traffic at all sites.
const godwitPort = 7400

// startGodwit runs this very binary at all sites, loads all rows through the first, and moves each
// region's rows to it.
func (b *peers) startGodwit(ctx context.Context, t *peerTools) (_ *peerSystem, err error) {
	var procs []*peerProc
	defer func() {
		if err != nil {
			killAll(procs)
			err = fmt.Errorf("godwit: %w", err)
		}
	}()
	first := fmt.Sprintf("%s:%d", b.site(0).IP, godwitPort)
	for i, r := range peerRegions {
		pr, err := b.start(i, nil, t.self, "start", "--insecure", "--insecure-anywhere",
			"--region", r, "--store", filepath.Join(b.p.Dir, "godwit-"+r),
			"--listen", fmt.Sprintf("%s:%d", b.site(i).IP, godwitPort),
			"--sql-listen", fmt.Sprintf("127.0.0.1:%d", mysqlPort), "--join", first, "--log-level", "warn")
		if err != nil {
			return nil, err
		}
		procs = append(procs, pr)
	}
	made := false
	if err := procs[0].await(ctx, func(ctx context.Context) error {
		if !made {
			if err := b.godwit(ctx, 0, join.PathInit, join.InitRequest{Shards: 2, Expect: len(peerRegions)},
				nil); err != nil {
				return err
			}
			made = true
		}
		return b.ledAtHome(ctx)
	}); err != nil {
		return nil, err
	}
	for i := range peerRegions {
		if err := procs[i].await(ctx, func(ctx context.Context) error { return b.pingMySQL(ctx, i) }); err != nil {
			return nil, err
		}
	}
	if err := b.load(ctx, t, 0); err != nil {
		return nil, err
	}
	if err := b.bringHome(ctx, t); err != nil {
		return nil, err
	}
	return &peerSystem{name: "godwit", run: b.measured(t), stop: func() {
		at, err := b.atHome(context.WithoutCancel(ctx))
		if err == nil {
			b.logf("godwit: rows at home at the end: %s\n", shares(at, b.rows))
		}
		killAll(procs)
	}}, nil
}

func (b *peers) godwit(ctx context.Context, region int, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	c := b.http(region)
	defer c.CloseIdleConnections()
	res, err := c.Post(fmt.Sprintf("http://%s:%d%s", b.site(region).IP, godwitPort, path), "application/json",
		bytes.NewReader(body))
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

// ledAtHome returns nil if every group serves from its home region.
func (b *peers) ledAtHome(ctx context.Context) error {
	c := b.http(0)
	defer c.CloseIdleConnections()
	res, err := c.Get(fmt.Sprintf("http://%s:%d%s", b.site(0).IP, godwitPort, cluster.PathStatus))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var st cluster.Status
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		return err
	}
	if len(st.Nodes) != len(peerRegions) || len(st.Groups) == 0 {
		return errors.New("the cluster is incomplete")
	}
	at := map[string]string{}
	for _, n := range st.Nodes {
		at[fmt.Sprint(n.ID)] = n.Region
	}
	for i := range st.Groups {
		if g := &st.Groups[i]; !g.Serving || g.Home != "" && at[fmt.Sprint(g.Leader)] != g.Home {
			return fmt.Errorf("group %s is not served from %s", g.Name, g.Home)
		}
	}
	return nil
}

// atHome counts each region's rows that live there.
func (b *peers) atHome(ctx context.Context) ([]int, error) {
	db, err := b.mysql(0, "sbtest")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	counts := make([]int, len(peerRegions))
	for i, r := range peerRegions {
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sbtest1__homes WHERE id BETWEEN ? AND ? AND home_region = ?",
			i*b.rows+1, (i+1)*b.rows, r).Scan(&counts[i]); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func shares(counts []int, rows int) string {
	var s string
	for i, n := range counts {
		s += fmt.Sprintf("%s %.1f%% ", peerRegions[i], 100*float64(n)/float64(rows))
	}
	return s[:len(s)-1]
}

// settled reports whether 99 % of every region's rows are at home.
func settled(counts []int, rows int) bool {
	for _, n := range counts {
		if n*100 < rows*99 {
			return false
		}
	}
	return true
}

// bringHome has the regions use their rows until the home policy has moved them. Statements move
// the rows that it has not moved within the time limit.
func (b *peers) bringHome(ctx context.Context, t *peerTools) error {
	begin := time.Now()
	first, err := b.atHome(ctx)
	if err != nil {
		return err
	}
	use, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, len(peerRegions))
	for i := range peerRegions {
		wg.Go(func() {
			if _, err := b.updates(use, t, i, 4*peerClients, int(b.settle.Seconds())+5, "--walk=on"); use.Err() == nil {
				errs[i] = err
			}
		})
	}
	counts := first
	for !settled(counts, b.rows) && time.Since(begin) < b.settle && ctx.Err() == nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		if counts, err = b.atHome(ctx); err != nil {
			break
		}
		if counts[1] == first[1] && counts[2] == first[2] && time.Since(begin) > b.settle*2/3 {
			break // the policy moves nothing
		}
	}
	stop()
	wg.Wait()
	if err := errors.Join(append(errs, err, ctx.Err())...); err != nil {
		return err
	}
	if settled(counts, b.rows) {
		b.logf("godwit: the policy of homes brought the rows home within %.0f s of use: %s\n",
			time.Since(begin).Seconds(), shares(counts, b.rows))
		return nil
	}
	b.logf("godwit: at home after %.0f s of use: %s; the rest is moved by UPDATE sbtest1__homes\n",
		time.Since(begin).Seconds(), shares(counts, b.rows))
	return b.moveHome(ctx)
}

// moveHome moves all rows to their regions by statements.
func (b *peers) moveHome(ctx context.Context) error {
	begin := time.Now()
	if _, err := b.everywhere(ctx, func(ctx context.Context, i int) (latencies, error) {
		db, err := b.mysql(i, "sbtest")
		if err != nil {
			return latencies{}, err
		}
		defer db.Close()
		const batch = 250
		for lo := i*b.rows + 1; lo <= (i+1)*b.rows; lo += batch {
			if _, err := db.ExecContext(ctx, "UPDATE sbtest1__homes SET home_region = ? WHERE id BETWEEN ? AND ?",
				peerRegions[i], lo, min(lo+batch-1, (i+1)*b.rows)); err != nil {
				return latencies{}, err
			}
		}
		return latencies{}, nil
	}); err != nil {
		return fmt.Errorf("moving rows home: %w", err)
	}
	counts, err := b.atHome(ctx)
	if err == nil && !settled(counts, b.rows) {
		err = fmt.Errorf("rows are not at home: %s", shares(counts, b.rows))
	}
	b.logf("godwit: moved within %.1f s: %s\n", time.Since(begin).Seconds(), shares(counts, b.rows))
	return err
}
