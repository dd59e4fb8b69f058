package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/godwitdb/godwit/sql/follow"
)

// makeSession begins a session of the target for definitions and rows of the source.
func makeSession(ctx context.Context, target *sql.DB) (*sql.Conn, error) {
	c, err := target.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// A server that has zero dates keeps them. Values that do not fit are errors, never cut short.
	_, err = c.ExecContext(ctx, "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0")
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// jsonChecks are what MariaDB says of columns of type JSON.
var jsonChecks = regexp.MustCompile("(?i) CHECK \\(json_valid\\(`[^`]*`\\)\\)")

// versioning is what MariaDB says of tables with a history.
var versioning = regexp.MustCompile(`(?i)\s+WITH SYSTEM VERSIONING`)

// makeTables makes the databases and tables in the target. If one cannot be made it takes back what
// it has made, and says of all of them why, unless these may be left out.
func (r *run) makeTables(ctx context.Context, source queryer) error {
	c, err := makeSession(ctx, r.target)
	if err != nil {
		return err
	}
	defer c.Close()
	var made []follow.Name
	var kept []*follow.Table
	var failed []error
	for _, db := range r.cat.databases {
		if err := r.makeDatabase(ctx, source, c, db); err != nil {
			return err
		}
	}
	for _, t := range r.cat.tables {
		why, err := r.makeTable(ctx, source, c, t)
		switch {
		case err != nil:
			return errors.Join(err, takeBack(ctx, c, made))
		case why == "":
			made, kept = append(made, t.Name), append(kept, t)
		default:
			r.report.Left, r.skipped = append(r.report.Left, Left{t.String(), why}), append(r.skipped, t.Name)
			failed = append(failed, fmt.Errorf("%s: %s", t, why))
		}
	}
	if r.o.DryRun {
		return takeBack(ctx, c, made)
	}
	if len(failed) > 0 && !r.o.SkipFailed {
		return errors.Join(append([]error{fmt.Errorf("%d of %d tables cannot be made in Godwit; nothing was copied. "+
			"Change them at the source, or leave them out by --skip-failed", len(failed), len(r.cat.tables))},
			append(failed, takeBack(ctx, c, made))...)...)
	}
	r.cat.tables = kept
	return nil
}

func takeBack(ctx context.Context, c *sql.Conn, made []follow.Name) error {
	var all []error
	for _, n := range made {
		_, err := c.ExecContext(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS "+n.Quoted())
		all = append(all, err)
	}
	return errors.Join(all...)
}

// takeBackAll drops the tables that makeTables has made.
func (r *run) takeBackAll(ctx context.Context) error {
	c, err := makeSession(ctx, r.target)
	if err != nil {
		return err
	}
	defer c.Close()
	var made []follow.Name
	for _, t := range r.cat.tables {
		made = append(made, t.Name)
	}
	return takeBack(ctx, c, made)
}

func (r *run) makeDatabase(ctx context.Context, source queryer, c *sql.Conn, db string) error {
	create, err := text(ctx, source, 1, "SHOW CREATE DATABASE IF NOT EXISTS "+follow.QuoteName(db))
	if err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, create)
	if err != nil {
		return fmt.Errorf("database %s cannot be made: %w", db, err)
	}
	return nil
}

// makeTable makes one table. why says what the target has against it; err, that it cannot be asked.
func (r *run) makeTable(ctx context.Context, source queryer, c *sql.Conn, t *follow.Table) (why string, err error) {
	create, err := createText(ctx, source, aTable, t.Name)
	if err != nil {
		return "", err
	}
	if cut := follow.Partitions.ReplaceAllString(create, ""); cut != create {
		create = cut
		r.note(t.Name, "its PARTITION BY was left out: Godwit spreads rows by itself")
	}
	if cut := versioning.ReplaceAllString(create, ""); cut != create {
		create = cut
		r.note(t.Name, "only its present rows were copied: Godwit has no system versioned tables, and reads the past by AS OF SYSTEM TIME")
	}
	if t.Engine != "" && !strings.EqualFold(t.Engine, "InnoDB") {
		r.note(t.Name, "its engine "+t.Engine+" has no snapshots: rows that were changed while it was copied may be missing")
	}
	if _, err = c.ExecContext(ctx, "USE "+follow.QuoteName(t.DB)); err != nil {
		return "", err
	}
	if r.o.Overwrite {
		if _, err = c.ExecContext(ctx, "DROP TABLE IF EXISTS "+t.Quoted()); err != nil {
			return "", err
		}
	}
	_, err = c.ExecContext(ctx, create)
	if cut := jsonChecks.ReplaceAllString(create, ""); follow.NumberOf(err) == errNotYet && cut != create {
		if _, again := c.ExecContext(ctx, cut); again == nil {
			r.note(t.Name, "it was made without its CHECKs that JSON is valid: "+err.Error())
			return "", nil
		}
	}
	switch {
	case follow.NumberOf(err) != 0:
		return err.Error(), nil
	case err != nil:
		return "", err
	}
	warnings, err := texts(ctx, c, "SHOW WARNINGS")
	for _, w := range warnings {
		r.note(t.Name, w[2])
	}
	return "", err
}

func (r *run) note(n follow.Name, why string) {
	r.report.Notes = append(r.report.Notes, Left{n.String(), why})
}

// makeObjects makes views, routines, triggers and events. A view may read another one: those that
// fail are tried again as long as others succeed.
func (r *run) makeObjects(ctx context.Context, source queryer) error {
	c, err := makeSession(ctx, r.target)
	if err != nil {
		return err
	}
	defer c.Close()
	todo := r.cat.objects
	for {
		var again []object
		var why []Left
		for _, o := range todo {
			err := r.makeObject(ctx, source, c, o)
			switch {
			case follow.NumberOf(err) != 0:
				again, why = append(again, o), append(why, Left{strings.ToLower(string(o.kind)) + " " + o.String(), err.Error()})
			case err != nil:
				return err
			}
		}
		if len(again) == 0 {
			return nil
		}
		if len(again) == len(todo) {
			r.report.Left = append(r.report.Left, why...)
			return nil
		}
		todo = again
	}
}

func (r *run) makeObject(ctx context.Context, source queryer, c *sql.Conn, o object) error {
	create, err := createText(ctx, source, o.kind, o.Name)
	if err != nil {
		return err
	}
	if create == "" {
		return fmt.Errorf("the source does not show %s %s to this user: give it SHOW_ROUTINE or SELECT on mysql.proc", o.kind, o.Name)
	}
	if _, err := c.ExecContext(ctx, "USE "+follow.QuoteName(o.DB)); err != nil {
		return err
	}
	if r.o.Overwrite {
		if _, err := c.ExecContext(ctx, "DROP "+string(o.kind)+" IF EXISTS "+o.Quoted()); err != nil {
			return err
		}
	}
	// Accounts are not copied: what is made belongs to the account that imports.
	_, err = c.ExecContext(ctx, follow.Definer.ReplaceAllString(create, ""))
	return err
}
