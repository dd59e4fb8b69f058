package tree

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
	ast.NewParamMarkerExpr = func(offset int) ast.ParamMarkerExpr { return &Param{at: offset} }
	ast.NewDecimal = func(s string) (any, error) { return DecimalText(s), nil }
	ast.NewHexLiteral = func(s string) (any, error) { return hexBytes(s) }
	ast.NewBitLiteral = func(s string) (any, error) { return bitBytes(s) }
}

type (
	DecimalText string // 1.50, as it was written
	HexLiteral  []byte // x'41', 0x41, b'01'
)

// ToString implements ast.BinaryLiteral, which the parser makes names and words of: comments,
// passwords, values of ENUM.
func (h HexLiteral) ToString() string { return string(h) }

// Literal is a constant: nil, bool, int64, uint64, float64, string, DecimalText or HexLiteral.
type Literal struct {
	ast.TexprNode
	V       any
	Charset string // of an introducer
	Collate string
	Offset  int // of the end of the first of several texts side by side; -1: there is one
}

func newLiteral(v any, charset, collate string) ast.ValueExpr {
	if l, ok := v.(*Literal); ok {
		return l
	}
	l := &Literal{Offset: -1, Charset: charset, Collate: collate}
	l.SetValue(v)
	return l
}

// SetValue implements ast.ValueExpr.
func (l *Literal) SetValue(v any) {
	if n, ok := v.(int); ok {
		v = int64(n)
	}
	l.V = v
}

// GetValue implements ast.ValueExpr.
func (l *Literal) GetValue() any { return l.V }

// GetDatumString implements ast.ValueExpr.
func (l *Literal) GetDatumString() string { return l.GetString() }

// GetString implements ast.ValueExpr.
func (l *Literal) GetString() string {
	s, _ := l.V.(string)
	return s
}

// GetProjectionOffset implements ast.ValueExpr.
func (l *Literal) GetProjectionOffset() int { return l.Offset }

// SetProjectionOffset implements ast.ValueExpr.
func (l *Literal) SetProjectionOffset(n int) { l.Offset = n }

// Restore implements ast.Node.
func (l *Literal) Restore(ctx *format.RestoreCtx) error {
	ctx.WritePlain(l.text())
	return nil
}

// Format implements ast.ExprNode.
func (l *Literal) Format(w io.Writer) { fmt.Fprint(w, l.text()) }

func (l *Literal) text() string {
	switch v := l.V.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case HexLiteral:
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return fmt.Sprint(l.V)
}

// Accept implements ast.Node.
func (l *Literal) Accept(v ast.Visitor) (ast.Node, bool) {
	n, _ := v.Enter(l)
	return v.Leave(n)
}

// Param is a ? of a prepared statement.
type Param struct {
	Literal
	at    int // in the text
	Order int
}

// SetOrder implements ast.ParamMarkerExpr.
func (p *Param) SetOrder(n int) { p.Order = n }

// Restore implements ast.Node.
func (p *Param) Restore(ctx *format.RestoreCtx) error {
	ctx.WritePlain("?")
	return nil
}

// Format implements ast.ExprNode.
func (p *Param) Format(w io.Writer) { fmt.Fprint(w, "?") }

// Accept implements ast.Node.
func (p *Param) Accept(v ast.Visitor) (ast.Node, bool) {
	n, _ := v.Enter(p)
	return v.Leave(n)
}

func hexBytes(s string) (HexLiteral, error) {
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

func bitBytes(s string) (HexLiteral, error) {
	switch {
	case strings.HasPrefix(s, "0b"):
		s = s[2:]
	case len(s) > 2 && (s[0] == 'b' || s[0] == 'B'):
		s = s[2 : len(s)-1]
	}
	for len(s)%8 != 0 {
		s = "0" + s
	}
	out := make(HexLiteral, 0, len(s)/8)
	for ; s != ""; s = s[8:] {
		b, err := strconv.ParseUint(s[:8], 2, 8)
		if err != nil {
			return nil, err
		}
		out = append(out, byte(b))
	}
	return out, nil
}
