package charset

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// Server is what a [Handler] stands before.
type Server interface {
	mysql.Handler
	mysql.BinlogReplicaHandler
}

// Client is the session of a client.
type Client interface {
	// Texts are the sets of the client's texts: of statements, and of results. id is the collation
	// that the client named as it logged in.
	Texts(id uint8) (statements, results *Set)
	Undone() *Undone
}

// Undone is what is left of a text of several statements. One before may have been SET NAMES.
type Undone struct {
	text string // in UTF-8
	by   *Set   // that it was read in
}

// Handler hands on the commands of clients in UTF-8, and what they get in their own sets.
type Handler struct {
	Server
	// Client is the session of a connection.
	Client func(c *mysql.Conn) Client
}

func (h *Handler) texts(c *mysql.Conn) (statements, results *Set) {
	return h.Client(c).Texts(c.CharacterSet)
}

// ComInitDB implements mysql.Handler.
func (h *Handler) ComInitDB(c *mysql.Conn, db string) error {
	in, _ := h.texts(c)
	name, err := in.Decode(db)
	if err == nil {
		err = h.Server.ComInitDB(c, name)
	}
	return h.failed(c, err)
}

// ComQuery implements mysql.Handler.
func (h *Handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) error {
	in, _ := h.texts(c)
	text, err := in.Statement(query)
	if read := h.results(c); err == nil {
		err = h.Server.ComQuery(ctx, c, text, func(r *sqltypes.Result, more bool) error { return cb(read(r), more) })
	}
	return h.failed(c, err)
}

// ComMultiQuery implements mysql.Handler. What is left of a text is in UTF-8 already when it comes
// again.
func (h *Handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) (string, error) {
	in, _ := h.texts(c)
	u := h.Client(c).Undone()
	known := u.text != "" && u.text == query
	if known && !u.by.same(in) {
		query, known = u.by.Raw(query), false
	}
	*u = Undone{}
	text, err := query, error(nil)
	if !known {
		text, err = in.Statement(query)
	}
	rest, read := "", h.results(c)
	if err == nil {
		rest, err = h.Server.ComMultiQuery(ctx, c, text, func(r *sqltypes.Result, more bool) error { return cb(read(r), more) })
	}
	if in != nil && err == nil {
		*u = Undone{rest, in}
	}
	return rest, h.failed(c, err)
}

// ComPrepare implements mysql.Handler.
func (h *Handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, p *mysql.PrepareData) ([]*querypb.Field, error) {
	in, out := h.texts(c)
	text, err := in.Statement(query)
	if err != nil {
		delete(c.PrepareData, p.StatementID) // the protocol library keeps it
		return nil, h.failed(c, err)
	}
	p.PrepareStmt = text
	fields, err := h.Server.ComPrepare(ctx, c, text, p)
	return out.fields(fields), h.failed(c, err)
}

// ComStmtExecute implements mysql.Handler.
func (h *Handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, p *mysql.PrepareData, cb func(*sqltypes.Result) error) error {
	in, _ := h.texts(c)
	for name, v := range p.BindVars {
		if in == nil || v == nil || !asText(p, name) {
			continue
		}
		text, err := in.Decode(string(v.Value))
		if err != nil {
			return h.failed(c, err)
		}
		p.BindVars[name] = &querypb.BindVariable{Type: v.Type, Value: []byte(text)}
	}
	read := h.results(c)
	return h.failed(c, h.Server.ComStmtExecute(ctx, c, p, func(r *sqltypes.Result) error { return cb(read(r)) }))
}

// asText reports whether a client sends a parameter as a text. BLOBs are bytes, as in MySQL. The
// protocol library has made VARBINARY of both, and names parameters v1, v2 and so on.
func asText(p *mysql.PrepareData, name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "v"))
	if err != nil || n < 1 || n > len(p.ParamsType) {
		return false
	}
	t := querypb.Type(p.ParamsType[n-1])
	return t == sqltypes.VarChar || t == sqltypes.Char
}

// failed words an error for the client.
func (h *Handler) failed(c *mysql.Conn, err error) error {
	var e *mysql.SQLError
	if err == nil || !errors.As(err, &e) || ascii(e.Message) {
		return err
	}
	_, out := h.texts(c)
	if out == nil {
		return err
	}
	own := *e
	own.Message = string(out.Encode([]byte(e.Message)))
	return &own
}

// results makes the results of a command those of the client. They may be shared, so they are made
// anew. Only the first one of several may say what its columns are.
func (h *Handler) results(c *mysql.Conn) func(r *sqltypes.Result) *sqltypes.Result {
	var fields []*querypb.Field
	return func(r *sqltypes.Result) *sqltypes.Result {
		_, out := h.texts(c)
		if out == nil || r == nil {
			return r
		}
		if len(r.Fields) > 0 {
			fields = r.Fields
		}
		own := *r
		own.Fields, own.Info = out.fields(r.Fields), string(out.Encode([]byte(r.Info)))
		own.Rows = make([][]sqltypes.Value, len(r.Rows))
		for i, row := range r.Rows {
			own.Rows[i] = out.row(fields, row)
		}
		return &own
	}
}

func (s *Set) row(fields []*querypb.Field, row []sqltypes.Value) []sqltypes.Value {
	own := make([]sqltypes.Value, len(row))
	for k, v := range row {
		if raw := v.Raw(); k < len(fields) && textual(fields[k]) && !ascii(raw) {
			v = sqltypes.MakeTrusted(v.Type(), s.Encode(raw))
		}
		own[k] = v
	}
	return own
}

// textual reports whether the values of a column are texts.
func textual(f *querypb.Field) bool {
	return f.Charset != uint32(sql.Collation_binary) && !sqltypes.IsBinary(f.Type) && f.Type != sqltypes.Bit && f.Type != sqltypes.Geometry
}

// fields are the columns of a result for the client.
func (s *Set) fields(fs []*querypb.Field) []*querypb.Field {
	if s == nil {
		return fs
	}
	text := func(t string) string { return string(s.Encode([]byte(t))) }
	out := make([]*querypb.Field, len(fs))
	for i, f := range fs {
		own := &querypb.Field{Name: text(f.Name), OrgName: text(f.OrgName), Table: text(f.Table), OrgTable: text(f.OrgTable),
			Database: text(f.Database), Type: f.Type, Charset: f.Charset, ColumnLength: f.ColumnLength, Decimals: f.Decimals, Flags: f.Flags}
		if textual(f) && (sqltypes.IsText(f.Type) || f.Type == sqltypes.Enum || f.Type == sqltypes.Set) {
			own.Charset = uint32(s.id.DefaultCollation())
		}
		out[i] = own
	}
	return out
}
