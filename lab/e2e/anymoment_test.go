package e2e

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// number reads a variable of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		t.Fatalf("%s is %q: give a number above 0", name, s)
	}
	return n
}

const (
	shopBucket      = "s3://acme/prod"
	accountsARegion = 20
	openingBalance  = 1000
	momentLayout    = "2006-01-02 15:04:05.000000"
	phase           = 40 * time.Second
)

// TestRestoreToAnyMoment: under TPC-C and transfers in five regions, with rows that move, leaders
// that change, and a node that is killed each minute, backups and the log of changes go to a
// bucket. Then all regions are lost, and their stores. A fresh cluster of other shards and regions
// restores 20 random moments from the bucket: all tables are byte for byte what reads AS OF these
// moments were, TPC-C's conditions hold, and the ledger's sums. Lost are 10 s at most.
//
// GODWIT_RESTORE_MINUTES and GODWIT_RESTORE_MOMENTS say how long the load runs, and how many
// moments are restored.
func TestRestoreToAnyMoment(t *testing.T) {
	needTime(t)
	r := &rescue{t: t, minutes: number(t, "GODWIT_RESTORE_MINUTES", 6), o: startOceans(t, 5), rng: rand.New(rand.NewPCG(23, uint64(time.Now().UnixNano())))}
	moments := number(t, "GODWIT_RESTORE_MOMENTS", 20)
	first := t.TempDir()
	r.c = r.o.cluster(t, first, 5, 2, "--gc-age", "3h")
	defer func() {
		if t.Failed() {
			for _, n := range r.c.nodes {
				t.Logf("--- node of %s\n%s", n.region, n.log())
			}
		}
	}()
	r.load()
	r.try("BACKUP LOG INTO '" + shopBucket + "'")

	run, stop := context.WithCancel(t.Context())
	defer stop()
	r.clients(run)
	r.began = time.Now()
	end := r.began.Add(time.Duration(r.minutes) * time.Minute)
	var others sync.WaitGroup
	others.Go(func() { r.leaders(run) })
	full := make(chan struct{})
	others.Go(func() { r.backups(run, full, end.Add(-20*time.Second)) })
	others.Go(func() { r.killer(run, end) })
	<-full
	var asOf []*snapshot
	begin, last := time.Now().Add(time.Second), end.Add(-5*time.Second)
	for range moments {
		asOf = append(asOf, &snapshot{at: begin.Add(time.Duration(r.rng.Int64N(int64(last.Sub(begin))))).Truncate(time.Microsecond).UTC()})
	}
	slices.SortFunc(asOf, func(a, b *snapshot) int { return a.at.Compare(b.at) })
	for _, s := range asOf {
		time.Sleep(time.Until(s.at.Add(time.Second)))
		r.read(s)
	}
	time.Sleep(time.Until(end))
	moved := r.moved()

	lost := time.Now()
	for _, n := range r.c.nodes {
		_ = n.cmd.Process.Kill() // all at once
	}
	r.c.kill()
	stop()
	r.work.Wait()
	others.Wait()
	for _, n := range r.c.nodes {
		if err := os.RemoveAll(n.dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d transactions of TPC-C (%d errors seen by clients), %d transfers acknowledged, %d refused, %d of unknown outcome; "+
		"%d rows of accounts away from where they were opened; %d leads moved, %d nodes killed; full backups %v, incremental ones %v",
		r.report.Total.Count, r.report.Total.Errors, r.count(acknowledged), r.count(refused), r.count(unknown), moved, r.leads, r.killed,
		rounded(r.full), rounded(r.incremental))
	r.exposure()

	r.c = r.o.cluster(t, t.TempDir(), 3, 3)
	r.newest(lost)
	var took []time.Duration
	for i, s := range asOf {
		took = append(took, r.compare(s, fmt.Sprintf("shop_%d", i+1)))
	}
	t.Logf("%d moments restored and compared; restores took %v", len(asOf), rounded(took))
}

func rounded(ds []time.Duration) (out []string) {
	for _, d := range ds {
		out = append(out, fmt.Sprintf("%.1f s", d.Seconds()))
	}
	return out
}

// rescue is the test of restores after the loss of everything.
type rescue struct {
	t       *testing.T
	o       *oceans
	c       *processes
	rng     *rand.Rand // of the test's own goroutine
	minutes int
	w       workload.Workload
	report  *workload.Report
	tables  []ordered
	work    sync.WaitGroup
	began   time.Time

	mu                sync.Mutex
	sent              []*transfer
	leads, killed     int
	full, incremental []time.Duration
}

// transfer is one between accounts, and what its client knows.
type transfer struct {
	n                int64
	from, to, amount int
	began, ended     time.Time
	outcome          outcome
}

// ordered is a table with the way to read its rows in order.
type ordered struct{ name, key string }

// load makes TPC-C and the ledger in one database.
func (r *rescue) load() {
	t := r.t
	t.Helper()
	o := workload.DefaultOptions()
	o.Loaders = 2
	o.TPCC.Warehouses, o.TPCC.Scale = len(r.c.regions), 0.01
	var err error
	if r.w, err = workload.New("tpcc", o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	begin := time.Now()
	if err := r.w.Init(ctx, r.c.targets("shop")); err != nil {
		t.Fatal(err)
	}
	db := r.c.nodes[0].open(t, "shop")
	exec1(t, db, "CREATE TABLE acct (id INT PRIMARY KEY, opened INT NOT NULL, balance BIGINT NOT NULL, KEY (balance))")
	exec1(t, db, "CREATE TABLE note (n BIGINT PRIMARY KEY, source INT NOT NULL, target INT NOT NULL, amount INT NOT NULL, KEY (source))")
	for i, n := range r.c.nodes {
		var rows []string
		for k := range accountsARegion {
			rows = append(rows, fmt.Sprintf("(%d, %d, %d)", i*accountsARegion+k, i, openingBalance))
		}
		exec1(t, n.open(t, "shop"), "INSERT INTO acct VALUES "+strings.Join(rows, ", "))
	}
	t.Logf("loaded in %s", time.Since(begin).Round(time.Second))
	var names []string
	for _, l := range r.ask(db, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' AND table_type = 'BASE TABLE' ORDER BY 1") {
		names = append(names, l[0])
	}
	for _, name := range names {
		var key []string
		for _, l := range r.ask(db, "SELECT column_name FROM information_schema.statistics WHERE table_schema = 'shop' AND table_name = '"+name+
			"' AND index_name = 'PRIMARY' ORDER BY seq_in_index") {
			key = append(key, l[0])
		}
		r.tables = append(r.tables, ordered{name, strings.Join(key, ", ")})
	}
	if len(r.tables) != 11 {
		t.Fatalf("tables: %v", r.tables)
	}
}

// ask returns the rows of a query as texts. It repeats one that the server wants repeated.
func (r *rescue) ask(db *sql.DB, q string) [][]string {
	r.t.Helper()
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		out, err := askOnce(r.t.Context(), db, q)
		if err == nil {
			return out
		}
		if !workload.Retryable(err) || time.Since(begin) > patience {
			r.t.Fatalf("%s: %v", q, err)
		}
	}
}

func askOnce(ctx context.Context, db *sql.DB, q string) (out [][]string, err error) {
	rows, err := db.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		vals, to := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			to[i] = &vals[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		line := make([]string, len(cols))
		for i, v := range vals {
			line[i] = v.String
		}
		out = append(out, line)
	}
	return out, rows.Err()
}

// patient makes a pool for statements that take long, with times in UTC.
func patient(n *node, db string) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", n.sql, db
	cfg.Timeout = 5 * time.Second
	cfg.Params = map[string]string{"time_zone": "'+00:00'"}
	cfg.Logger = &mysql.NopLogger{}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(err) // it judges the configuration alone, which is always the same
	}
	return sql.OpenDB(c)
}

// clients runs TPC-C and the transfers.
func (r *rescue) clients(ctx context.Context) {
	targets := r.c.targets("shop")
	r.work.Go(func() {
		var err error
		if r.report, err = r.w.Run(ctx, targets, workload.RunOptions{ClientsPerTarget: 1, TolerateErrors: true}); err != nil {
			r.t.Errorf("TPC-C ended with %v", err)
		}
	})
	start := time.Now()
	for i, n := range r.c.nodes {
		db := client(n.sql, "shop")
		r.t.Cleanup(func() { _ = db.Close() })
		regions := len(r.c.nodes)
		for k := range 2 {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			r.work.Go(func() {
				for x := int64(0); ctx.Err() == nil; x++ {
					// From phase to phase the clients of another region use a region's accounts.
					group := (i + int(time.Since(start)/phase)) % regions
					tr := &transfer{n: x*int64(2*regions) + int64(2*i+k), from: group*accountsARegion + rng.IntN(accountsARegion),
						to: group*accountsARegion + rng.IntN(accountsARegion), amount: 1 + rng.IntN(50)}
					if rng.IntN(5) == 0 {
						tr.to = rng.IntN(regions * accountsARegion)
					}
					if tr.to == tr.from {
						continue
					}
					tr.began = time.Now()
					tr.outcome = tr.post(ctx, db)
					tr.ended = time.Now()
					r.mu.Lock()
					r.sent = append(r.sent, tr)
					r.mu.Unlock()
					pause(ctx, 100*time.Millisecond)
				}
			})
		}
	}
}

func (tr *transfer) post(ctx context.Context, db *sql.DB) outcome {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return refused
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
	for _, q := range []struct {
		text string
		args []any
	}{
		{"UPDATE acct SET balance = balance - ? WHERE id = ?", []any{tr.amount, tr.from}},
		{"UPDATE acct SET balance = balance + ? WHERE id = ?", []any{tr.amount, tr.to}},
		{"INSERT INTO note VALUES (?, ?, ?, ?)", []any{tr.n, tr.from, tr.to, tr.amount}},
	} {
		if _, err := tx.ExecContext(ctx, q.text, q.args...); err != nil {
			return refused
		}
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return acknowledged
	case workload.Retryable(err):
		return refused
	}
	return unknown
}

func (r *rescue) count(o outcome) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tr := range r.sent {
		if tr.outcome == o {
			n++
		}
	}
	return n
}

// each calls fn with the nodes, from a random one on, until it succeeds at one, or the context
// ends.
func (r *rescue) each(ctx context.Context, fn func(ctx context.Context, n *node, db *sql.DB) error) (err error) {
	for i := rand.IntN(len(r.c.nodes)); ctx.Err() == nil; i++ {
		n := r.c.nodes[i%len(r.c.nodes)]
		db := patient(n, "")
		one, cancel := context.WithTimeout(ctx, 30*time.Second)
		err = fn(one, n, db)
		cancel()
		_ = db.Close() // nothing is pending
		if err == nil {
			return nil
		}
		pause(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

func (r *rescue) try(q string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.each(ctx, func(ctx context.Context, _ *node, db *sql.DB) error {
		_, err := db.ExecContext(ctx, q)
		return err
	}); err != nil {
		r.t.Fatalf("%s: %v", q, err)
	}
}

// leaders moves the lead of some group to some node, again and again.
func (r *rescue) leaders(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 10*time.Second)
		var groups []string
		if r.each(ctx, func(ctx context.Context, _ *node, db *sql.DB) error {
			rows, err := db.QueryContext(ctx, "SELECT name FROM godwit.groups")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					return err
				}
				groups = append(groups, name)
			}
			return rows.Err()
		}) != nil || len(groups) == 0 {
			continue
		}
		group := groups[rand.IntN(len(groups))]
		for range 3 {
			at, to := r.c.nodes[rand.IntN(len(r.c.nodes))], 1+rand.IntN(len(r.c.nodes))
			if _, err := at.tool("leader", "move", group, fmt.Sprint(to), "--insecure", "--addr", at.addr); err == nil {
				r.mu.Lock()
				r.leads++
				r.mu.Unlock()
				break // else the node is dead, or leads already
			}
		}
	}
}

// killer kills a node in each minute, and starts it again.
func (r *rescue) killer(ctx context.Context, end time.Time) {
	for m := range r.minutes {
		n := r.c.nodes[(m*2)%len(r.c.nodes)]
		pause(ctx, time.Until(r.began.Add(time.Duration(m)*time.Minute+15*time.Second)))
		if ctx.Err() != nil || time.Until(end) < 40*time.Second {
			return
		}
		n.kill()
		r.mu.Lock()
		r.killed++
		r.mu.Unlock()
		pause(ctx, 8*time.Second)
		n.start(r.t)
	}
}

// backups takes full and incremental backups until a time; full is closed when the first is there.
func (r *rescue) backups(ctx context.Context, full chan struct{}, until time.Time) {
	for i := 0; time.Now().Before(until) && ctx.Err() == nil; i++ {
		with, list := "INCREMENTAL, ", &r.incremental
		if i%5 == 0 {
			with, list = "", &r.full
		}
		begin := time.Now()
		if err := r.backup(ctx, "BACKUP INTO '"+shopBucket+"' WITH "+with+"DETACHED"); err != nil {
			if ctx.Err() == nil {
				r.t.Errorf("backup %d: %v", i, err)
			}
		} else {
			*list = append(*list, time.Since(begin))
		}
		if i == 0 {
			close(full)
		}
		pause(ctx, 15*time.Second)
	}
}

// backup runs a backup as a job, and waits for its end.
func (r *rescue) backup(ctx context.Context, q string) error {
	var id int64
	if err := r.each(ctx, func(ctx context.Context, _ *node, db *sql.DB) error {
		return db.QueryRowContext(ctx, q).Scan(&id)
	}); err != nil {
		return err
	}
	for {
		pause(ctx, 300*time.Millisecond)
		var status string
		var why sql.NullString
		if err := r.each(ctx, func(ctx context.Context, _ *node, db *sql.DB) error {
			err := db.QueryRowContext(ctx, "SELECT status, error FROM godwit.jobs WHERE job_id = ?", id).Scan(&status, &why)
			return err
		}); err != nil {
			return err
		}
		switch status {
		case "succeeded":
			return nil
		case "failed", "canceled":
			return fmt.Errorf("job %d %s: %s", id, status, why.String)
		}
	}
}

// snapshot is what all tables were at a moment.
type snapshot struct {
	at     time.Time
	tables map[string]*contents
}

// contents are the rows of a table, each as the start of its SHA-256, and the SHA-256 of all in
// order.
type contents struct {
	rows []uint64
	sum  [sha256.Size]byte
}

// rowsAt reads a table; asOf is a clause behind its name.
func rowsAt(ctx context.Context, db *sql.DB, database string, o ordered, asOf string) (*contents, [][]byte, error) {
	q := "SELECT * FROM " + database + "." + o.name + asOf
	if o.key != "" {
		q += " ORDER BY " + o.key
	}
	rows, err := db.QueryContext(ctx, q)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, nil, err
	}
	vals, to := make([]sql.RawBytes, len(cols)), make([]any, len(cols))
	for i := range vals {
		to[i] = &vals[i]
	}
	var all [][]byte
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return nil, nil, err
		}
		var row []byte
		for _, v := range vals {
			if v == nil {
				row = append(row, "N|"...)
				continue
			}
			row = append(strconv.AppendInt(row, int64(len(v)), 10), ':')
			row = append(append(row, v...), '|')
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	if o.key == "" {
		slices.SortFunc(all, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
	}
	c, sum := &contents{}, sha256.New()
	for _, row := range all {
		one := sha256.Sum256(row)
		c.rows = append(c.rows, binary.BigEndian.Uint64(one[:]))
		sum.Write(one[:])
	}
	sum.Sum(c.sum[:0])
	return c, all, nil
}

// read reads all tables AS OF the snapshot's moment, through some node that lives.
func (r *rescue) read(s *snapshot) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*patience)
	defer cancel()
	if err := r.each(ctx, func(ctx context.Context, _ *node, db *sql.DB) error {
		s.tables = map[string]*contents{}
		for _, o := range r.tables {
			c, _, err := rowsAt(ctx, db, "shop", o, " AS OF SYSTEM TIME '"+s.at.Format(momentLayout)+"'")
			if err != nil {
				return err
			}
			s.tables[o.name] = c
		}
		return nil
	}); err != nil {
		r.t.Fatalf("read AS OF %s: %v", s.at.Format(momentLayout), err)
	}
}

// moved counts the accounts that are not at home where they were opened.
func (r *rescue) moved() (n int) {
	db := r.c.nodes[0].open(r.t, "shop")
	for _, l := range r.ask(db, "SELECT a.opened, h.home_region FROM acct a JOIN acct__homes h USING (id)") {
		if opened, _ := strconv.Atoi(l[0]); r.c.regions[opened] != l[1] {
			n++
		}
	}
	if n == 0 {
		r.t.Error("no row has moved")
	}
	return n
}

// exposure logs the longest time of which the changes would have been lost, had all regions been
// lost just before a segment of the log was there.
func (r *rescue) exposure() {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	var before time.Time
	var all []time.Duration
	for _, p := range r.o.put {
		id, ok := strings.CutSuffix(p.name[strings.LastIndex(p.name, "/")+1:], archive.SegmentSuffix)
		if !ok {
			continue
		}
		to, err := time.Parse("20060102-150405.000000", id[:strings.LastIndex(id, "-")])
		if err != nil {
			r.t.Errorf("segment %s: %v", id, err)
			continue
		}
		if !before.IsZero() {
			all = append(all, p.at.Sub(before))
		}
		before = to
	}
	slices.Sort(all)
	if len(all) == 0 {
		r.t.Error("the log has no segments")
		return
	}
	r.t.Logf("%d segments of the log; what a loss of all regions just before the next one would have cost: median %.1f s, at most %.1f s",
		len(all)+1, all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}

// restore restores the database under another name, and returns its moment.
func (r *rescue) restore(asOf, name string) (moment time.Time, took time.Duration) {
	t := r.t
	t.Helper()
	db := patient(r.c.nodes[0], "")
	defer db.Close()
	begin := time.Now()
	var id, at, notes string
	var tables, rows int64
	q := "RESTORE DATABASE shop FROM '" + shopBucket + "'" + asOf + " AS " + name
	if err := db.QueryRowContext(t.Context(), q).Scan(&id, &at, &tables, &rows, &notes); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	took = time.Since(begin)
	moment, err := time.Parse(momentLayout, at)
	if err != nil {
		t.Fatal(err)
	}
	return moment, took
}

// newest restores the newest moment, and measures what was lost.
func (r *rescue) newest(lost time.Time) {
	t := r.t
	t.Helper()
	moment, took := r.restore("", "newest")
	db := patient(r.c.nodes[1], "newest")
	defer db.Close()
	there := r.ledger(db, moment)
	var last, kept time.Time
	gone := 0
	for _, tr := range r.sent {
		if tr.outcome != acknowledged {
			continue
		}
		if last = later(last, tr.ended); there[tr.n] {
			kept = later(kept, tr.ended)
		} else {
			gone++
		}
	}
	t.Logf("all regions lost: the newest moment is %.2f s before the loss; %d transfers acknowledged within %.2f s are lost; restored in %.1f s",
		lost.Sub(moment).Seconds(), gone, last.Sub(kept).Seconds(), took.Seconds())
	if last.Sub(kept) > 10*time.Second {
		t.Errorf("transfers of %s are lost", last.Sub(kept))
	}
	r.consistent("newest")
	r.try("DROP DATABASE IF EXISTS newest")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ledger checks the transfers that are there at a moment, and returns their numbers.
func (r *rescue) ledger(db *sql.DB, moment time.Time) map[int64]bool {
	t := r.t
	t.Helper()
	sent := map[int64]*transfer{}
	for _, tr := range r.sent {
		sent[tr.n] = tr
	}
	balance := map[int]int{}
	for i := range 5 * accountsARegion {
		balance[i] = openingBalance
	}
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	there := map[int64]bool{}
	wrong := 0
	for _, l := range r.ask(db, "SELECT n, source, target, amount FROM note") {
		n, from, to, amount := int64(num(l[0])), num(l[1]), num(l[2]), num(l[3])
		tr := sent[n]
		if tr == nil || tr.outcome == refused || tr.from != from || tr.to != to || tr.amount != amount || tr.began.After(moment) {
			if wrong++; wrong <= 3 {
				t.Errorf("at %s transfer %v is there, which was sent as %+v", moment, l, tr)
			}
		}
		there[n] = true
		balance[from] -= amount
		balance[to] += amount
	}
	for _, tr := range r.sent {
		if tr.outcome == acknowledged && tr.ended.Before(moment) && !there[tr.n] {
			if wrong++; wrong <= 3 {
				t.Errorf("at %s transfer %d is missing, which was acknowledged at %s", moment, tr.n, tr.ended.UTC())
			}
		}
	}
	sum := 0
	for _, l := range r.ask(db, "SELECT id, balance FROM acct") {
		id, b := num(l[0]), num(l[1])
		if sum += b; b != balance[id] {
			if wrong++; wrong <= 3 {
				t.Errorf("at %s account %d has %d, and its transfers come to %d", moment, id, b, balance[id])
			}
		}
	}
	if want := 5 * accountsARegion * openingBalance; sum != want {
		t.Errorf("at %s the accounts have %d together, not %d", moment, sum, want)
	}
	if wrong > 3 {
		t.Errorf("and %d more", wrong-3)
	}
	return there
}

// consistent checks TPC-C's conditions, and that indexes fit their tables.
func (r *rescue) consistent(name string) {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	target := workload.Target{Region: r.c.regions[1], URLs: []string{r.c.nodes[1].url(name)}}
	checks, err := r.w.Check(ctx, target)
	for workload.Retryable(err) && ctx.Err() == nil {
		pause(ctx, 200*time.Millisecond)
		checks, err = r.w.Check(ctx, target)
	}
	if err != nil || len(checks) == 0 {
		t.Errorf("TPC-C's checks of %s: %d, %v", name, len(checks), err)
	}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: check %s: %s (%s)", name, c.Name, c.Description, c.Detail)
		}
	}
	var names []string
	for _, o := range r.tables {
		names = append(names, name+"."+o.name)
	}
	db := patient(r.c.nodes[2], name)
	defer db.Close()
	for _, l := range r.ask(db, "CHECK TABLE "+strings.Join(names, ", ")) {
		if l[3] != "OK" {
			t.Errorf("CHECK TABLE: %v", l)
		}
	}
}

// compare restores a moment, compares it with what it was, and drops it.
func (r *rescue) compare(s *snapshot, name string) (took time.Duration) {
	t := r.t
	t.Helper()
	at := s.at.Format(momentLayout)
	moment, took := r.restore(" AS OF SYSTEM TIME '"+at+"'", name)
	if !moment.Equal(s.at) {
		t.Errorf("restored is %s, not %s", moment.Format(momentLayout), at)
	}
	db := patient(r.c.nodes[1], name)
	defer db.Close()
	for _, o := range r.tables {
		got, rows, err := rowsAt(t.Context(), db, name, o, "")
		for range 100 {
			if !workload.Retryable(err) {
				break
			}
			time.Sleep(200 * time.Millisecond)
			got, rows, err = rowsAt(t.Context(), db, name, o, "")
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if want := s.tables[o.name]; got.sum != want.sum {
			was := map[uint64]bool{}
			for _, x := range want.rows {
				was[x] = true
			}
			var more []string
			n := 0
			for i, x := range got.rows {
				if was[x] {
					delete(was, x)
				} else if n++; n <= 3 {
					more = append(more, string(rows[i]))
				}
			}
			t.Errorf("at %s (%s after the load began) %s has %d rows restored, and had %d; %d are others than these: %q; %d are missing",
				at, s.at.Sub(r.began).Round(time.Millisecond), o.name, len(got.rows), len(want.rows), n, more, len(was))
		}
	}
	r.ledger(db, s.at)
	r.consistent(name)
	r.try("DROP DATABASE IF EXISTS " + name)
	return took
}
