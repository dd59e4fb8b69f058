// Command consistency plays the anomaly of the Relay paper's Figure 13a against a cluster of two
// regions in this process, through SQL. A transfer writes one account in each region. A reader in
// the first region sees it and tells a reader in the second one. Does the second one see it, too?
// Relay's definition allows "not yet" while the transfer has not been acknowledged. See
// docs/consistency.md.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit"
	"github.com/godwitdb/godwit/policy/matrix"
)

func main() {
	if err := run(context.Background(), os.Stdout, 20); err != nil {
		log.Fatal(err)
	}
}

// run plays so many rounds in each mode.
func run(ctx context.Context, out io.Writer, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "godwit-consistency-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := matrix.Open(matrix.Relay)
	if err != nil {
		return err
	}
	if m, err = m.Pick("Ohio", "Paris"); err != nil { // 92 ms
		return err
	}
	cluster, err := godwit.OpenLocal(ctx, godwit.LocalConfig{Matrix: m, Dir: dir}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close(context.WithoutCancel(ctx))) }()
	open := func(region int) *sql.Conn {
		db, e := sql.Open("mysql", "root@tcp("+cluster.Nodes()[region].SQLAddr()+")/")
		if e == nil {
			var c *sql.Conn
			if c, e = db.Conn(ctx); e == nil {
				return c
			}
		}
		err = errors.Join(err, e)
		return nil
	}
	transfer, ohio, paris := open(0), open(0), open(1)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		c *sql.Conn
		q string
	}{
		{ohio, "SET CLUSTER SETTING home.mode = 'never'"},
		{ohio, "CREATE DATABASE bank"},
		{ohio, "CREATE TABLE bank.accounts (id VARCHAR(10) PRIMARY KEY, balance INT)"},
		{ohio, "INSERT INTO bank.accounts VALUES ('ohio', 0)"},
		{paris, "INSERT INTO bank.accounts VALUES ('paris', 0)"},
	} {
		if _, err := s.c.ExecContext(ctx, s.q); err != nil {
			return fmt.Errorf("%s: %w", s.q, err)
		}
	}
	for _, mode := range []string{"strict", "relay"} {
		for _, c := range []*sql.Conn{transfer, ohio, paris} {
			if _, err := c.ExecContext(ctx, "SET transaction_consistency = '"+mode+"'"); err != nil {
				return err
			}
		}
		p := play{transfer: transfer, ohio: ohio, paris: paris}
		for range rounds {
			if err := p.round(ctx); err != nil {
				return fmt.Errorf("%s: %w", mode, err)
			}
		}
		fmt.Fprintf(out, "%-7s %d transfers; Ohio saw one before it was acknowledged %d times, "+
			"and Paris then did not see it %d times; slowest read in Ohio meanwhile %v\n",
			mode+":", rounds, p.early, p.anomalies, p.slowest.Round(time.Millisecond))
		if p.anomalies > 0 {
			return fmt.Errorf("%s let the anomaly of Figure 13a through", mode)
		}
	}
	return nil
}

// play repeats the figure's three transactions.
type play struct {
	transfer, ohio, paris *sql.Conn
	early                 int // Ohio saw a transfer that was not acknowledged yet
	anomalies             int // and Paris did not, later
	slowest               time.Duration
}

// round makes one transfer (T1), reads in Ohio until it shows (T2), and then reads in Paris (T3).
func (p *play) round(ctx context.Context) error {
	before, err := balance(ctx, p.ohio, "ohio")
	if err != nil {
		return err
	}
	acknowledged := make(chan struct{})
	var failed error
	go func() {
		defer close(acknowledged)
		failed = p.move(ctx)
	}()
	for {
		waiting := !closed(acknowledged)
		begin := time.Now()
		now, err := balance(ctx, p.ohio, "ohio") // T2
		if err != nil {
			return err
		}
		if waiting {
			p.slowest = max(p.slowest, time.Since(begin))
		}
		if now == before {
			if closed(acknowledged) && failed != nil {
				return failed
			}
			time.Sleep(time.Millisecond)
			continue
		}
		if !closed(acknowledged) {
			p.early++
		}
		there, err := balance(ctx, p.paris, "paris") // T3
		if err != nil {
			return err
		}
		if there < now {
			p.anomalies++
		}
		<-acknowledged
		return failed
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// move adds to both accounts in one transaction (T1), and repeats it after error 1213.
func (p *play) move(ctx context.Context) (err error) {
	for range 20 {
		for _, q := range []string{"BEGIN", "UPDATE bank.accounts SET balance = balance + 1 WHERE id = 'ohio'",
			"UPDATE bank.accounts SET balance = balance + 1 WHERE id = 'paris'", "COMMIT"} {
			if _, err = p.transfer.ExecContext(ctx, q); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
		_, _ = p.transfer.ExecContext(ctx, "ROLLBACK")
	}
	return err
}

func balance(ctx context.Context, c *sql.Conn, id string) (n int, err error) {
	err = c.QueryRowContext(ctx, "SELECT balance FROM bank.accounts WHERE id = ?", id).Scan(&n)
	return n, err
}
