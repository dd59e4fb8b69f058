package infile

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// Prepare has the engine read the client's file as MySQL would, where fields may be enclosed.
// Where quotes escape themselves, or lines begin with a text of their own, the engine reads it
// alone.
func Prepare(ctx *sql.Context, n *plan.LoadData) {
	one := func(s string) byte {
		if s == "" {
			return 0
		}
		return s[0]
	}
	f := Format{FieldEnd: n.FieldsTerminatedBy, LineEnd: n.LinesTerminatedBy,
		Enclosed: one(n.FieldsEnclosedBy), Escape: one(n.FieldsEscapedBy)}
	if !n.Local || f.Enclosed == 0 || f.Enclosed == f.Escape || f.FieldEnd == "" || f.LineEnd == "" || n.LinesStartingBy != "" {
		return
	}
	if f.Escape == 0 {
		n.FieldsEscapedBy = string(Escape)
	}
	before := ctx.WithContext(ctx.Context)
	sql.WithServices(sql.Services{KillConnection: before.KillConnection, LoadInfile: func(name string) (io.ReadCloser, error) {
		file, err := before.LoadInfile(name)
		if err != nil {
			return nil, err
		}
		return NewReader(file, f), nil
	}})(ctx)
}
