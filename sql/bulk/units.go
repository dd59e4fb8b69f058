package bulk

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/schema"
)

// A job is divided into units, which nodes share (package share): the files of an import, large
// Parquet files in several, and ranges of the key of a table that is exported. They are chosen when
// the job is made, and are part of its record.

// unit is a part of a job.
type unit struct {
	// File is one of an import, and From and To are rows of it; To is 0 if it is the last part.
	File int   `json:"file,omitempty"`
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
	// Where is the condition for the rows of an export; empty: all.
	Where string `json:"where,omitempty"`
}

// Sizes of units; tests have smaller ones.
var (
	// groupBytes is about how much of a Parquet file is a unit, unless its groups of rows are
	// larger.
	groupBytes = int64(64 << 20)
	// unitRows is about how many rows of a table are one.
	unitRows = uint64(500_000)
)

// mostUnits bounds how many units a table has.
const mostUnits = 256

// units are those of the job. The record of one that an older release has made has none.
func (o *order) units() []unit {
	if o.Units != nil {
		return o.Units
	}
	if o.Verb == verbExport {
		return []unit{{}}
	}
	us := make([]unit, len(o.Files))
	for i := range us {
		us[i].File = i
	}
	return us
}

// plainOrder has no methods.
type plainOrder order

// MarshalJSON implements [json.Marshaler]. Releases that know of no units must not go on with a job
// that has them: they find no place in it.
func (o order) MarshalJSON() ([]byte, error) {
	if o.At = ""; o.Units != nil {
		o.At, o.Place = o.Place, ""
	}
	return json.Marshal(plainOrder(o))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *order) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, (*plainOrder)(o))
	if o.At != "" {
		o.Place, o.At = o.At, ""
	}
	return err
}

// divideFile adds the units of a file.
func (o *order) divideFile(file int, in place.Object) error {
	u := unit{File: file}
	if o.Options.Format.Kind == rowfile.Parquet && in.Size() > groupBytes {
		begins, err := rowfile.Divide(in, int(in.Size()/groupBytes)+1)
		if err != nil {
			return err
		}
		for _, at := range begins {
			u.To = at
			o.Units = append(o.Units, u)
			u.From, u.To = at, 0
		}
	}
	o.Units = append(o.Units, u)
	return nil
}

// divideTable makes the units of a table that is exported: ranges of the first column of its key,
// if that is an integer. They are equal in values, and in rows if these are spread evenly.
func (g *Env) divideTable(ctx context.Context, o *order, t *schema.Table) error {
	o.Units = []unit{{}}
	if len(t.Desc.PK) == 0 {
		return nil
	}
	n := int64(min(g.estimate(ctx, t)/unitRows, mostUnits))
	if n < 2 {
		return nil
	}
	col := t.Cols[t.Desc.Col(t.Desc.PK[0])]
	if col.Desc.Hidden || col.Desc.HiddenSystem || !sqltypes.IsIntegral(col.Type.Type()) {
		return nil
	}
	name := quote(col.Desc.Name)
	least, most, err := g.ends(ctx, o, name)
	if err != nil || least == nil {
		return err
	}
	step := new(big.Int).Sub(most, least)
	if step.Div(step, big.NewInt(n)); step.Sign() == 0 {
		return nil
	}
	o.Units = nil
	from := ""
	for i := range n - 1 {
		at := new(big.Int).Mul(step, big.NewInt(i+1))
		at.Add(at, least)
		o.Units = append(o.Units, unit{Where: strings.TrimPrefix(from+fmt.Sprintf(" AND %s < %s", name, at), " AND ")})
		from = fmt.Sprintf(" AND %s >= %s", name, at)
	}
	o.Units = append(o.Units, unit{Where: strings.TrimPrefix(from, " AND ")})
	return nil
}

// estimateIn is how long an export waits for an estimate of its rows.
const estimateIn = 3 * time.Second

// estimate is about how many rows a table has.
func (g *Env) estimate(ctx context.Context, t *schema.Table) uint64 {
	for begin := time.Now(); time.Since(begin) < estimateIn; {
		if s, _ := g.Stats.Sample(t); s != nil {
			break
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(20 * time.Millisecond):
		}
	}
	return g.Stats.Rows(t)
}

// ends are the least and the greatest value of a column of the table that is exported; nil: it has
// no rows.
func (g *Env) ends(ctx context.Context, o *order, column string) (least, most *big.Int, err error) {
	in, err := g.open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer in.close()
	in.s.NextAsOf = o.Moment
	q := fmt.Sprintf("SELECT MIN(%s), MAX(%s) FROM %s.%s", column, column, quote(o.DB), quote(o.Table))
	err = g.Query(ctx, in.conn, q, func(r *sqltypes.Result, _ bool) error {
		for _, row := range r.Rows {
			if len(row) != 2 || row[0].IsNull() || row[1].IsNull() {
				continue
			}
			var ok1, ok2 bool
			least, ok1 = new(big.Int).SetString(row[0].ToString(), 10)
			most, ok2 = new(big.Int).SetString(row[1].ToString(), 10)
			if !ok1 || !ok2 {
				return fmt.Errorf("the values %s and %s are no integers", row[0].ToString(), row[1].ToString())
			}
		}
		return nil
	})
	return least, most, err
}
