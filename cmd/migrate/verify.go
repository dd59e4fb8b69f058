package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/godwitdb/godwit/sql/follow"
)

// checksum is a query that both servers answer alike for the same rows: their number, and the sum
// of a checksum of each. FLOAT, DOUBLE and JSON are shown differently by different servers, and are
// left out of it.
func checksum(t *follow.Table) (query string, without []string) {
	var cells []string
	for _, c := range t.Columns {
		q := follow.QuoteName(c.Name)
		switch {
		case c.Float(), c.Data == "json":
			without = append(without, c.Name)
			continue
		case c.Binary():
			q = "HEX(" + q + ")"
		case c.Charset != "":
			q = "HEX(CONVERT(" + q + " USING utf8mb4))"
		case c.Data == "bit":
			q = q + "+0"
		}
		cells = append(cells, "COALESCE("+q+",'NULL')")
	}
	return "SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS(','," + strings.Join(append(cells, "''"), ",") + "))),0) FROM " + t.Quoted(), without
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
