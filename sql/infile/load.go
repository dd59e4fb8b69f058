package infile

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/sql/charset"
)

// Prepare has the engine read the client's file as MySQL would, where fields may be enclosed.
// Where quotes escape themselves, or lines begin with a text of their own, the engine reads it
// alone. load gives a file that the client is asked for. Errors: those of a character set in which
// no files are read (1115, 1235).
func Prepare(ctx *sql.Context, n *plan.LoadData, load func(string, func(string) (io.ReadCloser, error)) (io.ReadCloser, error)) error {
	one := func(s string) byte {
		if s == "" {
			return 0
		}
		return s[0]
	}
	f := Format{FieldEnd: n.FieldsTerminatedBy, LineEnd: n.LinesTerminatedBy,
		Enclosed: one(n.FieldsEnclosedBy), Escape: one(n.FieldsEscapedBy)}
	if !n.Local {
		return nil
	}
	set, err := charset.OfFile(n.Charset)
	if err != nil {
		return err
	}
	before := ctx.WithContext(ctx.Context)
	read := func(file io.ReadCloser) io.ReadCloser { return NewReader(file, f) }
	if f.Enclosed == 0 || f.Enclosed == f.Escape || f.FieldEnd == "" || f.LineEnd == "" || n.LinesStartingBy != "" {
		read = func(file io.ReadCloser) io.ReadCloser { return file }
	} else if f.Escape == 0 {
		n.FieldsEscapedBy = string(Escape)
	}
	sql.WithServices(sql.Services{KillConnection: before.KillConnection, LoadInfile: func(name string) (io.ReadCloser, error) {
		file, err := load(name, before.LoadInfile)
		if err != nil {
			return nil, err
		}
		return read(set.File(file)), nil
	}})(ctx)
	return nil
}
