package bind

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
)

// The parser leaves to its users what literals are. These here keep what was written.
func init() {
	ast.NewValueExpr = newLiteral
	ast.NewParamMarkerExpr = func(offset int) ast.ParamMarkerExpr { return &param{offset: offset} }
	ast.NewDecimal = func(s string) (any, error) { return decimalText(s), nil }
	ast.NewHexLiteral = func(s string) (any, error) { return hexBytes(s) }
	ast.NewBitLiteral = func(s string) (any, error) { return bitBytes(s) }
}

type (
	decimalText string // 1.50, as it was written
	hexLiteral  []byte // x'41', 0x41, b'01'
)

// literal is a constant: nil, bool, int64, uint64, float64, string, decimalText or hexLiteral.
type literal struct {
	ast.TexprNode
	v       any
	charset string // of an introducer
	collate string
	offset  int
}

func newLiteral(v any, charset, collate string) ast.ValueExpr {
	if l, ok := v.(*literal); ok {
		return l
	}
	l := &literal{offset: -1, charset: charset, collate: collate}
	l.SetValue(v)
	return l
}

// SetValue implements ast.ValueExpr.
func (l *literal) SetValue(v any) {
	if n, ok := v.(int); ok {
		v = int64(n)
	}
	l.v = v
}

// GetValue implements ast.ValueExpr.
func (l *literal) GetValue() any { return l.v }

// GetDatumString implements ast.ValueExpr.
func (l *literal) GetDatumString() string { return l.GetString() }

// GetString implements ast.ValueExpr.
func (l *literal) GetString() string {
	s, _ := l.v.(string)
	return s
}

// GetProjectionOffset implements ast.ValueExpr.
func (l *literal) GetProjectionOffset() int { return l.offset }

// SetProjectionOffset implements ast.ValueExpr.
func (l *literal) SetProjectionOffset(n int) { l.offset = n }

// Restore implements ast.Node.
func (l *literal) Restore(ctx *format.RestoreCtx) error {
	ctx.WritePlain(l.text())
	return nil
}

// Format implements ast.ExprNode.
func (l *literal) Format(w io.Writer) { fmt.Fprint(w, l.text()) }

func (l *literal) text() string {
	switch v := l.v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case hexLiteral:
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return fmt.Sprint(l.v)
}

// Accept implements ast.Node.
func (l *literal) Accept(v ast.Visitor) (ast.Node, bool) {
	n, _ := v.Enter(l)
	return v.Leave(n)
}

// param is a ? of a prepared statement.
type param struct {
	literal
	offset, order int
}

// SetOrder implements ast.ParamMarkerExpr.
func (p *param) SetOrder(n int) { p.order = n }

// Restore implements ast.Node.
func (p *param) Restore(ctx *format.RestoreCtx) error {
	ctx.WritePlain("?")
	return nil
}

// Format implements ast.ExprNode.
func (p *param) Format(w io.Writer) { fmt.Fprint(w, "?") }

// Accept implements ast.Node.
func (p *param) Accept(v ast.Visitor) (ast.Node, bool) {
	n, _ := v.Enter(p)
	return v.Leave(n)
}

func hexBytes(s string) (hexLiteral, error) {
	switch {
	case strings.HasPrefix(s, "0x"):
		s = s[2:]
		if len(s)%2 != 0 {
			s = "0" + s
		}
	case len(s) > 2 && (s[0] == 'x' || s[0] == 'X'):
		s = s[2 : len(s)-1]
	}
	return hex.DecodeString(s)
}

func bitBytes(s string) (hexLiteral, error) {
	switch {
	case strings.HasPrefix(s, "0b"):
		s = s[2:]
	case len(s) > 2 && (s[0] == 'b' || s[0] == 'B'):
		s = s[2 : len(s)-1]
	}
	for len(s)%8 != 0 {
		s = "0" + s
	}
	out := make(hexLiteral, 0, len(s)/8)
	for ; s != ""; s = s[8:] {
		b, err := strconv.ParseUint(s[:8], 2, 8)
		if err != nil {
			return nil, err
		}
		out = append(out, byte(b))
	}
	return out, nil
}
