package expr

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// Mode are the SQL modes that expressions look at.
type Mode uint32

const (
	ErrorForDivisionByZero Mode = 1 << iota
	Strict
	NoZeroDate
	NoZeroInDate
	NoBackslashEscapes
	TruncateFractions // TIME_TRUNCATE_FRACTIONAL
)

// Memory accounts for what a statement keeps in memory, in bytes. Grow fails at a limit.
type Memory interface {
	Grow(n int64) error
	Shrink(n int64)
}

// Env is what expressions know about the session and the statement. It must not change while
// compiled expressions are in use, but for Outer and Params between two runs.
type Env struct {
	// Ctx ends functions that wait (SLEEP); nil: never.
	Ctx context.Context
	// Loc is the session's time zone (nil: UTC), Now the statement's begin, Clock SYSDATE's time.
	Loc   *time.Location
	Now   time.Time
	Clock func() time.Time
	Mode  Mode
	// GroupConcatMax is group_concat_max_len (0: 1024), MaxPacket max_allowed_packet (0: 64 MiB),
	// WeekMode default_week_format, CTEDepth cte_max_recursion_depth (0: 1000).
	GroupConcatMax, MaxPacket, WeekMode, CTEDepth int
	// Mem accounts for the strings that functions make; nil: nobody does.
	Mem Memory
	// Held takes bytes for what runs on after the statement, until release is called; nil: not.
	Held func(n int64) (release func(), err error)
	// Params are the values of Param nodes.
	Params []Value
	// Outer has the columns of outer queries while a dependent plan runs.
	Outer *Frame
	// Box is the engine's context for boxed functions; nil: an empty one.
	Box *sql.Context
	// CompileSub compiles a subquery that is left in an expression.
	CompileSub func(s *Sub, layout []ColID, env *Env) (Expr, error)
	// Warn notes a warning; nil drops them.
	Warn func(code int, msg string)
	// UserVar reads a user variable, SetUserVar assigns it.
	UserVar    func(name string) (Value, Type, error)
	SetUserVar func(name string, x Value, t Type) error
	// UUID makes what UUID() answers; nil: a random one.
	UUID func() (string, error)
	// TellID gets the arguments of LAST_INSERT_ID(x); nil drops them.
	TellID func(id uint64)
	// Facts answer DATABASE(), USER(), CONNECTION_ID() and the like.
	Facts Facts
}

// Err is why the statement must end now; nil if it may go on, after others have had their turns.
func (e *Env) Err() error {
	if e == nil || e.Ctx == nil {
		return nil
	}
	return e.Ctx.Err()
}

// Facts are what the information functions answer.
type Facts struct {
	Database, User, CurrentUser, Version string
	ConnectionID, LastInsertID           uint64
	RowCount, FoundRows                  int64
}

// Frame holds the current row of outer queries. Gen rises whenever a value changes.
type Frame struct {
	IDs  []ColID
	Vals []Value
	Gen  uint64
	// Parent is the frame of the query further out.
	Parent *Frame
}

// find looks a column up in the frame and those further out.
func (f *Frame) find(id ColID) (*Frame, int) {
	for ; f != nil; f = f.Parent {
		for i, x := range f.IDs {
			if x == id {
				return f, i
			}
		}
	}
	return nil, 0
}

// Zone is the session's time zone.
func (e *Env) Zone() *time.Location {
	if e.Loc == nil {
		return time.UTC
	}
	return e.Loc
}

// Note adds a warning.
func (e *Env) Note(code int, msg string) {
	if e.Warn != nil {
		e.Warn(code, msg)
	}
}

// PacketLimit is the largest result of a string function.
func (e *Env) PacketLimit() int {
	if e.MaxPacket == 0 {
		return 64 << 20
	}
	return e.MaxPacket
}

// columnNumber is what tells columns of a name apart in the text of a Col.
var columnNumber = regexp.MustCompile(`@\d+`)

// Fits reports whether a result of n bytes is no larger than max_allowed_packet, and warns if it is
// not: then the function's value is NULL. It is to be asked before the result is made.
func (e *Env) Fits(function string, n int) bool {
	if limit := e.PacketLimit(); n > limit || n < 0 {
		e.Note(1301, fmt.Sprintf("Result of %s() was larger than max_allowed_packet (%d) - truncated", function, limit))
		return false
	}
	return true
}

// ErrRange is error 1690.
func ErrRange(typ, where string) error {
	return mysql.NewSQLError(1690, "22003", "%s value is out of range in '%s'", typ, columnNumber.ReplaceAllString(where, ""))
}

// ErrUnsupported is error 1235.
func ErrUnsupported(what string) error {
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s'", what)
}
