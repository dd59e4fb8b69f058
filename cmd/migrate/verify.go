package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// checksum is a query that both servers answer alike for the same rows: their number, and the sum
// of a checksum of each. FLOAT, DOUBLE and JSON are shown differently by different servers, and are
// left out of it.
func checksum(t *table) (query string, without []string) {
	var cells []string
	for _, c := range t.columns {
		q := quoteName(c.name)
		switch {
		case c.float(), c.data == "json":
			without = append(without, c.name)
			continue
		case c.binary():
			q = "HEX(" + q + ")"
		case c.charset != "":
			q = "HEX(CONVERT(" + q + " USING utf8mb4))"
		case c.data == "bit":
			q = q + "+0"
		}
		cells = append(cells, "COALESCE("+q+",'NULL')")
	}
	return "SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS(','," + strings.Join(append(cells, "''"), ",") + "))),0) FROM " + t.quoted(), without
}

// verify compares the tables of a snapshot of the source with those of the target.
func (r *run) verify(ctx context.Context, readers []*sql.Conn) error {
	target, err := r.target.Conn(ctx)
	if err != nil {
		return err
	}
	defer target.Close()
	var differ []string
	for i, t := range r.cat.tables {
		query, without := checksum(t)
		var there, here [][]string
		var g errgroup.Group
		g.Go(func() (err error) { there, err = texts(ctx, readers[i%len(readers)], query); return err })
		g.Go(func() (err error) { here, err = texts(ctx, target, query); return err })
		if err := g.Wait(); err != nil {
			return fmt.Errorf("%s: its checksums cannot be compared: %w", t, err)
		}
		said := "equal"
		switch {
		case there[0][0] != here[0][0]:
			said = fmt.Sprintf("%s rows at the source, %s in Godwit", there[0][0], here[0][0])
		case there[0][1] != here[0][1]:
			said = "the same number of rows, but others"
		case len(without) > 0:
			said = "equal without " + strings.Join(without, ", ")
		}
		if !strings.HasPrefix(said, "equal") {
			differ = append(differ, t.String()+": "+said)
		}
		r.checked(t.String(), said)
	}
	if len(differ) > 0 {
		return fmt.Errorf("the servers differ:\n%s", strings.Join(differ, "\n"))
	}
	return nil
}
