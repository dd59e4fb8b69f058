package expr

// Expr is a compiled value.
type Expr interface {
	Type() Type
	// Eval computes the values of the selected rows. The vector has b.N positions, of which
	// those in sel hold something. It belongs to the expression until the next call.
	Eval(b *Batch, sel []int32) (*Vec, error)
}

// Pred is a compiled condition.
type Pred interface {
	// Filter returns the rows of sel for which the condition is TRUE, or FALSE if want is false,
	// in order. It does not change sel, and may return it. What it returns is valid until the
	// next call.
	Filter(b *Batch, sel []int32, want bool) ([]int32, error)
}

// Compiler makes the compiled form of nodes over a layout of columns.
type Compiler struct {
	pos map[ColID]int
	Env *Env // what the expressions know of the session
}
