package infile

import (
	"fmt"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// What is said of lines that have fewer or more fields than are read, and of \N for a column that
// is NOT NULL.
const (
	errTooFew  = 1261
	errTooMany = 1262
	errToZero  = 1263
)

var states = map[int]string{errTooFew: "01000", errTooMany: "01000", errToZero: "22004"}

// Value is the value that the k-th of the columns that the INSERT names gets from line i of the
// batch at hand, number row of the file, if its field is missing, or is \N and must not be. ok is
// false of all others. Errors are those of strict mode. A nil Load is another statement.
func (l *Load) Value(k int, s *assign.Setter, b *expr.Batch, i int32, row int) (v any, ok bool, err error) {
	if l == nil || k >= len(l.columns) || !b.Cols[s.At].IsNull(i) {
		return nil, false, nil
	}
	if n, _ := l.line(i); l.columns[k] >= n {
		if err := l.wrong(errTooFew, "Row %d doesn't contain data for all columns", row); err != nil {
			return nil, true, err
		}
		return l.nothing(s)
	}
	if s.Col.Desc.Nullable || s.Nulls == assign.TakeNull {
		return nil, true, nil
	}
	if s.To.Kind == expr.Timestamp {
		return l.nothing(s)
	}
	if err := l.wrong(errToZero, "Column set to default value; NULL supplied to NOT NULL column '%s' at row %d",
		s.Col.Desc.Name, row); err != nil {
		return nil, true, err
	}
	return l.nothing(s)
}

// Ended looks whether line i of the batch at hand has more fields than are read.
func (l *Load) Ended(i int32, row int) error {
	if l == nil {
		return nil
	}
	if _, cut := l.line(i); !cut {
		return nil
	}
	return l.wrong(errTooMany, "Row %d was truncated; it contained more data than there were input columns", row)
}

// Remember assigns the fields of the last line to their variables.
func (l *Load) Remember() error {
	if l == nil {
		return nil
	}
	for i, name := range l.Vars {
		if name == "" || l.last == nil {
			continue
		}
		x := expr.Value{}
		if v := l.last[i]; v != nil {
			x = expr.Value{Kind: expr.Text, S: *v}
		}
		if err := l.Env.SetUserVar(name, x, expr.UserVarType(l.cols[i].Type)); err != nil {
			return err
		}
	}
	return nil
}

// wrong is an error in strict mode, and a warning else.
func (l *Load) wrong(code int, format string, args ...any) error {
	if l.Strict {
		return mysql.NewSQLError(code, states[code], format, args...)
	}
	l.Ctx.Warn(code, format, args...)
	return nil
}

// nothing is what a column has that gets no field.
func (l *Load) nothing(s *assign.Setter) (any, bool, error) {
	switch {
	case s.Nulls == assign.TakeNull, s.Col.Desc.Nullable && s.Col.Desc.Default == nil:
		return nil, true, nil
	case s.To.Kind == expr.Timestamp && !s.Col.Desc.Nullable:
		p, _ := calendar.Round(calendar.FromGo(l.Env.Now.UTC()), 0)
		return calendar.ToGo(p, expr.Utc), true, nil
	}
	v, err := s.Zero()
	return v, true, err
}

// Info is what a client is told of the lines: of how many rows were written, of those that they met
// (duplicates), and of warnings.
func (l *Load) Info(lines, written, duplicates, warnings int) string {
	deleted, skipped := duplicates, 0
	if !l.Replace {
		deleted, skipped = 0, lines-written
	}
	return fmt.Sprintf("Records: %d  Deleted: %d  Skipped: %d  Warnings: %d", lines, deleted, skipped, warnings)
}
