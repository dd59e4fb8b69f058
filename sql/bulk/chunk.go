package bulk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/schema"
)

// Bounds of a chunk. One in which rows may be left out is smaller: a session keeps 1,024 warnings,
// and all of them are looked at.
var chunkRows = 8192 // tests have fewer

const (
	chunkBytes  = 2 << 20
	ignoredRows = 1000
)

// chunk is rows that are loaded in one transaction.
type chunk struct {
	of *parts
	part
	into *into
	// wrong are the rows that are left out, and last is the last of these errors.
	wrong []string
	last  error
	text  []byte  // as LOAD DATA reads them
	ends  []int   // of the rows in text
	line  []int64 // of the rows in the file
}

// add adds a row.
func (c *chunk) add(r *rowfile.Record) {
	for i, f := range r.Fields {
		if i > 0 {
			c.text = append(c.text, '\t')
		}
		switch {
		case f.Null:
			c.text = append(c.text, `\N`...)
		case c.into.bits != nil && i < len(c.into.bits) && c.into.bits[i] && f.Bytes:
			var n uint64
			for _, b := range f.Text {
				n = n<<8 | uint64(b)
			}
			c.text = strconv.AppendUint(c.text, n, 10)
		default:
			c.text = escaped(c.text, f.Text)
		}
	}
	c.text = append(c.text, '\n')
	c.ends, c.line = append(c.ends, len(c.text)), append(c.line, r.Line)
}

// escaped appends a field as LOAD DATA reads it.
func escaped(to, field []byte) []byte {
	for _, b := range field {
		switch b {
		case '\\', '\t', '\n':
			to = append(to, '\\')
		}
		to = append(to, b)
	}
	return to
}

// first are the first n rows.
func (c *chunk) first(n int) []byte {
	if n == 0 {
		return nil
	}
	return c.text[:c.ends[n-1]]
}

// drop takes a row out.
func (c *chunk) drop(i int) {
	from := 0
	if i > 0 {
		from = c.ends[i-1]
	}
	n := c.ends[i] - from
	c.text = slices.Delete(c.text, from, c.ends[i])
	c.ends, c.line = slices.Delete(c.ends, i, i+1), slices.Delete(c.line, i, i+1)
	for k := i; k < len(c.ends); k++ {
		c.ends[k] -= n
	}
}

// into says where fields of rows go.
type into struct {
	names []string // of the fields; nil: they have none
	text  string   // the list of a LOAD DATA, and its SET
	bits  []bool   // fields whose column is a BIT
}

// into finds the columns of fields.
func (o *order) into(t *schema.Table, names []string) (*into, error) {
	x := &into{names: names, text: o.Fields}
	if o.Fields != "" {
		return x, nil
	}
	cols := names
	if cols == nil {
		for _, c := range t.Cols {
			if !c.Desc.Hidden && !c.Desc.HiddenSystem {
				cols = append(cols, c.Desc.Name)
			}
		}
	}
	var list, set []string
	for i, name := range cols {
		k := slices.IndexFunc(t.Cols, func(c *schema.Column) bool { return strings.EqualFold(c.Desc.Name, name) })
		if k < 0 {
			return nil, fmt.Errorf("it has a column %q, and the table has none: list the columns and variables that its fields go to", name)
		}
		d := t.Cols[k].Desc
		v := fmt.Sprintf("@_field_%d", i)
		x.bits = append(x.bits, false)
		switch {
		case d.Generated != nil && names != nil: // it is computed
			list = append(list, v)
		case strings.HasPrefix(strings.ToLower(d.Type), "bit"): // LOAD DATA would take digits for bytes
			x.bits[i] = true
			list, set = append(list, v), append(set, quote(d.Name)+" = CAST("+v+" AS UNSIGNED)")
		default:
			list = append(list, quote(d.Name))
		}
	}
	if x.text = "(" + strings.Join(list, ", ") + ")"; set != nil {
		x.text += " SET " + strings.Join(set, ", ")
	}
	return x, nil
}

// query is the LOAD DATA of a chunk.
func (o *order) query(x *into) string {
	replace := ""
	if o.Options.OnDuplicate == onDuplicateReplace {
		replace = "REPLACE "
	}
	return "LOAD DATA LOCAL INFILE 'import' " + replace + "INTO TABLE " + quote(o.DB) + "." + quote(o.Table) +
		" FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' " + x.text
}
