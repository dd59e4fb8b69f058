package tpch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Options say what is run.
type Options struct {
	Scale float64
	// Times is how often each query is run on each server, in turns; the least time counts.
	Times int
	// Only are the queries; empty: all.
	Only []int
	// Patience bounds a query.
	Patience time.Duration
	Log      io.Writer
}

// Result is what became of a query.
type Result struct {
	Query       int
	Here, There time.Duration // least times: Godwit's, and that of the reference
	// Wrong says how the answers differ; empty: they do not.
	Wrong string
	// FellBack: Godwit left the query to go-mysql-server.
	FellBack bool
	// Trips are the WAN round trips that the query waited for.
	Trips float64
}

// Ratio is Godwit's time in those of the reference.
func (r Result) Ratio() float64 { return float64(r.Here) / float64(max(r.There, 1)) }

// answer is what a server says: each value as text.
type answer struct {
	rows [][]string
	took time.Duration
}

// null stands for NULL.
const null = "\x00NULL"

func ask(ctx context.Context, con *sql.Conn, query string) (answer, error) {
	begin := time.Now()
	rows, err := con.QueryContext(ctx, query)
	if err != nil {
		return answer{}, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return answer{}, err
	}
	var a answer
	vals, dest := make([]sql.NullString, len(cols)), make([]any, len(cols))
	for i := range vals {
		dest[i] = &vals[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return answer{}, err
		}
		row := make([]string, len(cols))
		for i, v := range vals {
			row[i] = v.String
			if !v.Valid {
				row[i] = null
			}
		}
		a.rows = append(a.rows, row)
	}
	a.took = time.Since(begin)
	return a, rows.Err()
}

// differ says how an answer differs from that of the reference. Numbers are compared exactly, and
// rows that ORDER BY leaves equal may stand in any order.
func differ(got, want [][]string) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows instead of %d", len(got), len(want))
	}
	g, w := lines(got), lines(want)
	slices.Sort(g)
	slices.Sort(w)
	for i := range g {
		if g[i] != w[i] {
			return fmt.Sprintf("a row is %s instead of %s", g[i], w[i])
		}
	}
	return ""
}

func lines(rows [][]string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		var b strings.Builder
		for _, v := range r {
			if x, ok := new(big.Rat).SetString(v); ok {
				v = x.RatString()
			}
			b.WriteString(v + "|")
		}
		out[i] = b.String()
	}
	return out
}

// Run runs the queries on a database of Godwit and on the reference, in turns.
func Run(ctx context.Context, here, there *sql.DB, o Options) (results []Result, err error) {
	h, err := session(ctx, here)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	t, err := session(ctx, there)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for n := 1; n <= Queries; n++ {
		if len(o.Only) > 0 && !slices.Contains(o.Only, n) {
			continue
		}
		r, err := beside(ctx, h, t, n, o)
		if err != nil {
			return nil, fmt.Errorf("query %d: %w", n, err)
		}
		results = append(results, r)
		if o.Log != nil {
			fmt.Fprintf(o.Log, "Q%d: %s, %s %s\n", n, r.Here, r.There, r.Wrong)
		}
		if r.Here > o.Patience { // its connection is lost
			h.Close()
			if h, err = session(ctx, here); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func session(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	con, err := db.Conn(ctx)
	if err == nil {
		_, err = con.ExecContext(ctx, "USE "+database)
	}
	return con, err
}

// beside runs one query so many times on both servers. A query that Godwit does not end in time is
// a wrong one.
func beside(ctx context.Context, h, t *sql.Conn, n int, o Options) (Result, error) {
	r := Result{Query: n, Here: math.MaxInt64, There: math.MaxInt64}
	q := Query(n, o.Scale)
	before, err := fallbacks(ctx, h)
	if err != nil {
		return r, err
	}
	for range max(1, o.Times) {
		bounded, cancel := context.WithTimeout(ctx, o.Patience)
		got, err := ask(bounded, h, q)
		cancel()
		want, err2 := ask(ctx, t, q)
		if err2 != nil {
			return r, fmt.Errorf("reference: %w", err2)
		}
		r.There = min(r.There, want.took)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			r.Here, r.Wrong = o.Patience+1, fmt.Sprintf("no answer after %s", o.Patience)
			return r, nil
		case err != nil:
			r.Wrong = err.Error()
			return r, nil
		}
		r.Here = min(r.Here, got.took)
		if r.Trips, err = trips(ctx, h); err != nil {
			return r, err
		}
		if r.Wrong = differ(got.rows, want.rows); r.Wrong != "" {
			break
		}
	}
	after, err := fallbacks(ctx, h)
	r.FellBack = after > before
	return r, err
}

// fallbacks is how many statements the gateway has left to go-mysql-server.
func fallbacks(ctx context.Context, con *sql.Conn) (n float64, err error) {
	err = con.QueryRowContext(ctx, "SELECT COALESCE(SUM(statements), 0) FROM godwit.fallbacks WHERE reason <> 'system table'").Scan(&n)
	return n, err
}

// trips are the WAN round trips of the statement before.
func trips(ctx context.Context, con *sql.Conn) (n float64, err error) {
	err = con.QueryRowContext(ctx, "SELECT @@last_statement_wan_rtts").Scan(&n)
	return n, err
}

// Mean is the geometric mean of the ratios.
func Mean(results []Result) float64 {
	sum := 0.0
	for _, r := range results {
		sum += math.Log(r.Ratio())
	}
	return math.Exp(sum / float64(max(1, len(results))))
}

// Print writes a table.
func Print(w io.Writer, results []Result) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "query\tgodwit ms\treference ms\tratio\ttrips\tengine\tanswer\n")
	for _, r := range results {
		engine, says := "own", "right"
		if r.FellBack {
			engine = "OLD"
		}
		if r.Wrong != "" {
			says = "WRONG: " + r.Wrong
		}
		fmt.Fprintf(tab, "Q%d\t%.1f\t%.1f\t%.2f\t%g\t%s\t%s\n", r.Query, ms(r.Here), ms(r.There), r.Ratio(), r.Trips, engine, says)
	}
	fmt.Fprintf(tab, "geometric mean\t\t\t%.2f\n", Mean(results))
	return tab.Flush()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Plans prints the plans of the queries, with what they cost.
func Plans(ctx context.Context, db *sql.DB, o Options, w io.Writer) error {
	con, err := session(ctx, db)
	if err != nil {
		return err
	}
	defer con.Close()
	for n := 1; n <= Queries; n++ {
		if len(o.Only) > 0 && !slices.Contains(o.Only, n) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, o.Patience)
		a, err := ask(bounded, con, "EXPLAIN ANALYZE "+Query(n, o.Scale))
		cancel()
		fmt.Fprintf(w, "Q%d %s\n", n, a.took.Round(time.Millisecond))
		if err != nil {
			fmt.Fprintf(w, "  %s\n", err)
			if con, err = session(ctx, db); err != nil {
				return err
			}
		}
		for _, r := range a.rows {
			fmt.Fprintln(w, strings.Join(r, " "))
		}
	}
	return nil
}
