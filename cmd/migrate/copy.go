package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/godwitdb/godwit/sql/follow"
)

// tries is how often a batch is written again after a deadlock or a wait for a lock.
const tries = 20

// copyTables copies the rows of all tables, one reader a table, and writers that are shared.
func (r *run) copyTables(ctx context.Context, snap *snapshot) error {
	tables := make(chan *follow.Table)
	batches := make(chan *batch)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(tables)
		for _, t := range r.cat.tables {
			select {
			case tables <- t:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	var reading sync.WaitGroup
	for _, c := range snap.readers {
		reading.Add(1)
		g.Go(func() error {
			defer reading.Done()
			for t := range tables {
				if err := r.copyTable(ctx, c, t, batches); err != nil {
					return fmt.Errorf("%s: %w", t, err)
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		reading.Wait()
		close(batches)
		return nil
	})
	for range r.o.Threads {
		g.Go(func() error { return r.write(ctx, batches) })
	}
	return g.Wait()
}

// batch is a statement with rows of one table.
type batch struct {
	of   *follow.Table
	text []byte
	rows int
	done *sync.WaitGroup
}

// write executes batches until there are no more.
func (r *run) write(ctx context.Context, batches <-chan *batch) error {
	c, err := makeSession(ctx, r.target)
	if err != nil {
		return err
	}
	defer c.Close()
	for b := range batches {
		open := false
		err := again(ctx, func() error {
			_, err := c.ExecContext(ctx, string(b.text))
			if open && follow.NumberOf(err) == errDuplicate {
				return nil // they were committed at the first try
			}
			open = open || follow.OutcomeOpen(err)
			if follow.OutcomeOpen(err) && len(b.of.Key) == 0 {
				return fmt.Errorf("it has no key that would show whether they have been (--overwrite begins anew): %v", err)
			}
			return err
		})
		b.done.Done()
		if err != nil {
			return fmt.Errorf("%s: rows cannot be written: %w", b.of, err)
		}
	}
	return nil
}

// again calls f until it meets nothing that may go away by itself.
func again(ctx context.Context, f func() error) error {
	for i := 0; ; i++ {
		err := f()
		if !follow.Passing(err) || i == tries || ctx.Err() != nil {
			return err
		}
		follow.Pause(ctx, time.Duration(i+1)*10*time.Millisecond)
	}
}

// selectOf reads a column so that its text is the whole value: FLOATs are shown with six digits.
func selectOf(c follow.Column) string {
	if c.Data == "float" {
		return follow.QuoteName(c.Name) + "+0e0"
	}
	return follow.QuoteName(c.Name)
}

func (r *run) copyTable(ctx context.Context, c *sql.Conn, t *follow.Table, out chan<- *batch) error {
	begin := time.Now()
	columns := t.Stored()
	if len(columns) == 0 {
		return fmt.Errorf("all of its columns are generated")
	}
	var list []string
	for _, x := range columns {
		list = append(list, selectOf(x))
	}
	rows, err := c.QueryContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+t.Quoted())
	if err != nil {
		return err
	}
	defer rows.Close()
	cells := make([]sql.RawBytes, len(columns))
	to := make([]any, len(columns))
	for i := range cells {
		to[i] = &cells[i]
	}
	var done sync.WaitGroup
	stat := Copied{Table: t.String(), Check: "not compared"}
	head := follow.InsertInto(t.Name, columns)
	b := &batch{of: t, done: &done}
	flush := func() error {
		if b.rows == 0 {
			return nil
		}
		stat.Rows, stat.Bytes = stat.Rows+int64(b.rows), stat.Bytes+int64(len(b.text))
		done.Add(1)
		select {
		case out <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b = &batch{of: t, done: &done}
		return nil
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		if b.rows == 0 {
			b.text = append(b.text, head...)
		} else {
			b.text = append(b.text, ',')
		}
		b.text = append(b.text, '(')
		for i, v := range cells {
			if i > 0 {
				b.text = append(b.text, ',')
			}
			b.text = appendCell(b.text, columns[i], v)
		}
		b.text = append(b.text, ')')
		if b.rows++; b.rows == follow.BatchRows || len(b.text) >= follow.BatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	done.Wait()
	stat.Took = time.Since(begin)
	r.copied(stat)
	return nil
}

// appendCell writes a value that the source sent as text.
func appendCell(b []byte, c follow.Column, v sql.RawBytes) []byte {
	switch {
	case v == nil:
		return append(b, "NULL"...)
	case c.Binary() || c.Data == "bit":
		return follow.AppendHex(b, v)
	case c.Data == "year":
		return append(b, v...) // the driver reads 0000 as the number 0, which as a text is 2000
	}
	return follow.QuoteText(b, string(v))
}
