package tpch

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// database is where the tables are made; an older one is dropped.
const database = "tpch"

// chunk is how many rows are loaded by one statement, which is a transaction.
const chunk = 10_000

// Load makes the tables and fills them, by one statement after another. With several gateways they
// take turns, so that the rows of each table are at home in all of their regions. Then the
// statistics are gathered.
func Load(ctx context.Context, gateways []*sql.DB, scale float64) error {
	l := &loader{ctx: ctx, gateways: gateways}
	first := gateways[0]
	for _, q := range []string{"SET GLOBAL local_infile = 1", "DROP DATABASE IF EXISTS " + database,
		"CREATE DATABASE " + database + " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"} {
		if _, err := first.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	for _, t := range tables {
		if _, err := first.ExecContext(ctx, "CREATE TABLE "+database+"."+t.name+" ("+t.columns+")"); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if err := l.all(newGen(scale)); err != nil {
		return err
	}
	con, err := first.Conn(ctx)
	if err != nil {
		return err
	}
	defer con.Close()
	for _, q := range []string{"USE " + database, view} {
		if _, err := con.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	for _, t := range tables {
		if _, err := con.ExecContext(ctx, "ANALYZE TABLE "+t.name); err != nil {
			return fmt.Errorf("ANALYZE TABLE %s: %w", t.name, err)
		}
	}
	return nil
}

type loader struct {
	ctx      context.Context
	gateways []*sql.DB
	sent     int // statements
}

func (l *loader) all(g *gen) error {
	for _, t := range []struct {
		name string
		rows func(sink) error
	}{{"region", g.region}, {"nation", g.nation}, {"supplier", g.supplier}, {"part", g.part}, {"partsupp", g.partsupp},
		{"customer", g.customer}} {
		f := l.into(t.name)
		if err := t.rows(f.add); err != nil {
			return err
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
	orders, lines := l.into("orders"), l.into("lineitem")
	err := g.ordersAndLines(func(o order) error {
		if err := orders.add(o.row); err != nil {
			return err
		}
		for _, x := range o.lines {
			if err := lines.add(x); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = orders.flush()
	}
	if err == nil {
		err = lines.flush()
	}
	return err
}

// filler gathers rows of a table.
type filler struct {
	l     *loader
	table string
	rows  strings.Builder
	n     int
}

func (l *loader) into(table string) *filler { return &filler{l: l, table: table} }

func (f *filler) add(row string) error {
	f.rows.WriteString(row)
	f.rows.WriteByte('\n')
	if f.n++; f.n < chunk {
		return nil
	}
	return f.flush()
}

// handlers numbers the readers that the driver knows.
var handlers atomic.Int64

func (f *filler) flush() error {
	if f.n == 0 {
		return nil
	}
	name := fmt.Sprintf("tpch%d", handlers.Add(1))
	text := f.rows.String()
	mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(text) })
	defer mysql.DeregisterReaderHandler(name)
	db := f.l.gateways[f.l.sent%len(f.l.gateways)]
	f.l.sent++
	f.rows.Reset()
	f.n = 0
	if _, err := db.ExecContext(f.l.ctx, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' INTO TABLE "+database+"."+f.table); err != nil {
		return fmt.Errorf("load of %s: %w", f.table, err)
	}
	return nil
}
