package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/godwitdb/godwit/cluster"
)

// godwitKind is one way to run Godwit.
type godwitKind struct {
	name      string
	port      int    // of the cluster's traffic, at all sites; SQL clients use the next one
	tls       bool   // between nodes, and for clients
	encrypted bool   // the stores
	certs     string // folder of the certificates, with tls
	key       string // file of the stores' key, if encrypted
}

// plainGodwit is the system beside Galera and etcd, which have neither TLS nor encryption here.
var plainGodwit = godwitKind{name: "godwit", port: 7400}

// godwitSites is a cluster of this very binary with a node at each site.
type godwitSites struct {
	sqlSites
	kind  godwitKind
	procs []*peerProc
}

// addr is the address of a site's node.
func (g *godwitSites) addr(region int) string {
	return fmt.Sprintf("%s:%d", g.site(region).IP, g.kind.port)
}

// secured are the flags of a command that speaks to a node.
func (g *godwitSites) secured() []string {
	if g.kind.tls {
		return []string{"--certs", g.kind.certs}
	}
	return []string{"--insecure"}
}

// startGodwit runs this very binary at all sites, loads all rows through the first, and moves each
// region's rows to it.
func (b *peers) startGodwit(ctx context.Context, t *peerTools) (*peerSystem, error) {
	g, err := b.open(ctx, t, plainGodwit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plainGodwit.name, err)
	}
	return &peerSystem{name: plainGodwit.name, run: g.measured, stop: func() { g.stop(ctx) }}, nil
}

// open starts a cluster, with its rows at home.
func (b *peers) open(ctx context.Context, t *peerTools, k godwitKind) (_ *godwitSites, err error) {
	g := &godwitSites{sqlSites: sqlSites{peers: b, t: t, port: k.port + 1}, kind: k}
	if k.tls {
		g.certs = k.certs
	}
	defer func() {
		if err != nil {
			killAll(g.procs)
		}
	}()
	for i, r := range peerRegions {
		args := []string{"start", "--region", r, "--store", filepath.Join(b.p.Dir, k.name+"-"+r),
			"--listen", g.addr(i), "--sql-listen", fmt.Sprintf("127.0.0.1:%d", g.port), "--join", g.addr(0), "--log-level", "warn"}
		if args = append(args, g.secured()...); !k.tls {
			args = append(args, "--insecure-anywhere")
		}
		if k.encrypted {
			args = append(args, "--encryption-key", k.key)
		}
		pr, err := b.start(i, nil, t.self, args...)
		if err != nil {
			return nil, err
		}
		g.procs = append(g.procs, pr)
		// The first node makes the authority, by which the others get their certificates.
		if err := pr.await(ctx, func(ctx context.Context) error { return g.listens(ctx, i) }); err != nil {
			return nil, err
		}
	}
	if _, err := g.tell(ctx, "init", "--shards", "2", "--expect", fmt.Sprint(len(peerRegions)),
		"--no-root-password"); err != nil {
		return nil, err
	}
	if err := g.procs[0].await(ctx, g.ledAtHome); err != nil {
		return nil, err
	}
	for i := range peerRegions {
		if err := g.procs[i].await(ctx, func(ctx context.Context) error { return g.pingMySQL(ctx, i) }); err != nil {
			return nil, err
		}
	}
	if err := g.forSysbench(); err != nil {
		return nil, err
	}
	if err := g.load(ctx, 0); err != nil {
		return nil, err
	}
	return g, g.bringHome(ctx)
}

// forSysbench gives the client's certificates the names that sysbench looks for.
func (g *godwitSites) forSysbench() error {
	if g.certs == "" {
		return nil
	}
	var errs []error
	for from, to := range map[string]string{"ca.crt": "cacert.pem", "client.crt": "client-cert.pem",
		"client.key": "client-key.pem"} {
		text, err := os.ReadFile(filepath.Join(g.certs, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(g.certs, to), text, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (g *godwitSites) stop(ctx context.Context) {
	at, err := g.atHome(context.WithoutCancel(ctx))
	if err == nil {
		g.logf("%s: rows at home at the end: %s\n", g.kind.name, shares(at, g.rows))
	}
	killAll(g.procs)
}

// listens returns nil if a site's node takes connections.
func (g *godwitSites) listens(ctx context.Context, region int) error {
	c, err := g.site(region).Dial(ctx, "tcp", g.addr(region))
	if err != nil {
		return err
	}
	return c.Close()
}

// tell runs a command of this binary at the first site, for the node there, and returns what it
// prints.
func (g *godwitSites) tell(ctx context.Context, command string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.t.self, append(append([]string{command, "--addr", g.addr(0)}, g.secured()...), args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := g.site(0).Start(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("godwit %s: %w\n%s", command, err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

// ledAtHome returns nil if every group serves from its home region.
func (g *godwitSites) ledAtHome(ctx context.Context) error {
	text, err := g.tell(ctx, "status", "--json")
	if err != nil {
		return err
	}
	var st cluster.Status
	if err := json.Unmarshal(text, &st); err != nil {
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
func (g *godwitSites) atHome(ctx context.Context) ([]int, error) {
	db, err := g.mysql(0, "sbtest")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	counts := make([]int, len(peerRegions))
	for i, r := range peerRegions {
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sbtest1__homes WHERE id BETWEEN ? AND ? AND home_region = ?",
			i*g.rows+1, (i+1)*g.rows, r).Scan(&counts[i]); err != nil {
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
func (g *godwitSites) bringHome(ctx context.Context) error {
	begin := time.Now()
	first, err := g.atHome(ctx)
	if err != nil {
		return err
	}
	use, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, len(peerRegions))
	for i := range peerRegions {
		wg.Go(func() {
			if _, err := g.updates(use, i, 4*peerClients, int(g.settle.Seconds())+5, "--walk=on"); use.Err() == nil {
				errs[i] = err
			}
		})
	}
	counts := first
	for !settled(counts, g.rows) && time.Since(begin) < g.settle && ctx.Err() == nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		if counts, err = g.atHome(ctx); err != nil {
			break
		}
		if counts[1] == first[1] && counts[2] == first[2] && time.Since(begin) > g.settle*2/3 {
			break // the policy moves nothing
		}
	}
	stop()
	wg.Wait()
	if err := errors.Join(append(errs, err, ctx.Err())...); err != nil {
		return err
	}
	if settled(counts, g.rows) {
		g.logf("%s: the policy of homes brought the rows home within %.0f s of use: %s\n", g.kind.name,
			time.Since(begin).Seconds(), shares(counts, g.rows))
		return nil
	}
	g.logf("%s: at home after %.0f s of use: %s; the rest is moved by UPDATE sbtest1__homes\n", g.kind.name,
		time.Since(begin).Seconds(), shares(counts, g.rows))
	return g.moveHome(ctx)
}

// moveHome moves all rows to their regions by statements.
func (g *godwitSites) moveHome(ctx context.Context) error {
	begin := time.Now()
	if _, err := g.everywhere(ctx, func(ctx context.Context, i int) (latencies, error) {
		db, err := g.mysql(i, "sbtest")
		if err != nil {
			return latencies{}, err
		}
		defer db.Close()
		const batch = 250
		for lo := i*g.rows + 1; lo <= (i+1)*g.rows; lo += batch {
			if _, err := db.ExecContext(ctx, "UPDATE sbtest1__homes SET home_region = ? WHERE id BETWEEN ? AND ?",
				peerRegions[i], lo, min(lo+batch-1, (i+1)*g.rows)); err != nil {
				return latencies{}, err
			}
		}
		return latencies{}, nil
	}); err != nil {
		return fmt.Errorf("moving rows home: %w", err)
	}
	counts, err := g.atHome(ctx)
	if err == nil && !settled(counts, g.rows) {
		err = fmt.Errorf("rows are not at home: %s", shares(counts, g.rows))
	}
	g.logf("%s: moved within %.1f s: %s\n", g.kind.name, time.Since(begin).Seconds(), shares(counts, g.rows))
	return err
}
