package program

import "github.com/godwitdb/godwit/sql/token"

// Kind is what a program is.
type Kind uint8

// The kinds of programs.
const (
	Procedure Kind = iota
	Function
	Trigger
	Event
)

// Program is a stored program.
type Program struct {
	Kind   Kind
	Name   string
	Params []Param
	// Returns is the type of a function.
	Returns string
	Body    Stmt
	Trigger TriggerHead
	// Reads and Sets are the columns of OLD and NEW that a trigger names: those that it assigns
	// (Sets), and the others.
	Reads, Sets []string
	// Rows are the same with their rows, in the order of the text.
	Rows []RowColumn
	// From and To are where the body stands.
	From, To int
	Head     Head
	// Returning: there is a RETURN in it.
	Returning bool
	// Facts are those of a function.
	Facts Facts
}

// RowColumn is a column of OLD or NEW (Row, in lower case) in a trigger, which may assign it.
type RowColumn struct {
	Row, Name string
	Set       bool
}

// Head is what a CREATE says about a routine besides its parameters.
type Head struct {
	DB string
	// Replace is OR REPLACE, Absent is IF NOT EXISTS.
	Replace, Absent bool
	// User and Host are of the DEFINER; User is empty if there is none, or it is CURRENT_USER.
	User, Host string
	// Params is the text of the parameters.
	Params string
	Options
}

// Options are what ALTER FUNCTION may change, too.
type Options struct {
	// Access is empty if nothing is said.
	Access        string
	Deterministic bool
	Invoker       bool
	Secured       bool // it says something of SQL SECURITY
	Comment       string
	Commented     bool
}

// TriggerHead says when a trigger fires.
type TriggerHead struct {
	Before bool
	Event  string // insert, update or delete
	Table  string
	// Follows and Precedes are the trigger beside which it was put; empty: it is the last one.
	Follows, Precedes string
}

// Param is a parameter.
type Param struct {
	Name, Type string
	In, Out    bool
}

// Stmt is a statement of a program.
type Stmt interface{ stmt() }

// Expr is the text of an expression.
type Expr string

type (
	// Block is BEGIN ... END.
	Block struct {
		Label      string
		Vars       []*Declare
		Conditions map[string]Match
		Cursors    map[string]string // queries by lower name
		Handlers   []*Handler
		Body       []Stmt
	}
	// Declare declares variables.
	Declare struct {
		Names   []string
		Type    string
		Default Expr // empty: NULL
	}
	// Handler is what is done about conditions.
	Handler struct {
		Exit bool
		For  []Match
		Body Stmt
	}
	// Match is a set of conditions.
	Match struct {
		Code  int    // of an error
		State string // an SQLSTATE
		Class string // sqlwarning, not found or sqlexception
		Name  string // of a condition that is declared
	}
	// If has an Else, which may be empty.
	If struct {
		Whens []When
		Else  []Stmt
	}
	// Case is CASE; Value is empty if the branches have conditions. With Lacks there is no ELSE.
	Case struct {
		Value Expr
		Whens []When
		Else  []Stmt
		Lacks bool
	}
	// When is a branch.
	When struct {
		Cond Expr
		Then []Stmt
	}
	// Loop is LOOP, WHILE (While is its condition) or REPEAT (Until).
	Loop struct {
		Label        string
		While, Until Expr
		Body         []Stmt
	}
	// Leave ends what has the label, Iterate begins it again.
	Leave struct{ Label string }
	// Iterate begins a loop again.
	Iterate struct{ Label string }
	// Return ends a function.
	Return struct{ Value Expr }
	// Set assigns.
	Set struct{ To []Assignment }
	// Assignment is one of SET. The target is a variable, a column of NEW (Row), or, as it was
	// written, a system variable.
	Assignment struct {
		Row, Name string
		User      bool
		System    string
		Value     Expr
	}
	// Open opens a cursor, Close closes it.
	Open struct{ Cursor string }
	// Close closes a cursor.
	Close struct{ Cursor string }
	// Fetch gets the next row of a cursor.
	Fetch struct {
		Cursor string
		To     []token.Variable
	}
	// Signal is SIGNAL, or RESIGNAL (Again), which may have no condition.
	Signal struct {
		Again bool
		Match *Match
		Items []Item
	}
	// Item is a part of the information about a condition.
	Item struct {
		Name  string // in upper case
		Value Expr
		// To is where GET DIAGNOSTICS puts it.
		To token.Variable
	}
	// Diagnostics is GET DIAGNOSTICS: of a condition, or of the statement (Number is empty).
	Diagnostics struct {
		Stacked bool
		Number  Expr
		Items   []Item
	}
	// Call calls a procedure.
	Call struct {
		DB, Name string
		Args     []Expr
	}
	// Do computes expressions, for what they do.
	Do struct{ Exprs []Expr }
	// SQL is any other statement.
	SQL struct{ Text string }
)

func (*Block) stmt()       {}
func (*If) stmt()          {}
func (*Case) stmt()        {}
func (*Loop) stmt()        {}
func (*Leave) stmt()       {}
func (*Iterate) stmt()     {}
func (*Return) stmt()      {}
func (*Set) stmt()         {}
func (*Open) stmt()        {}
func (*Close) stmt()       {}
func (*Fetch) stmt()       {}
func (*Signal) stmt()      {}
func (*Diagnostics) stmt() {}
func (*Call) stmt()        {}
func (*Do) stmt()          {}
func (*SQL) stmt()         {}
