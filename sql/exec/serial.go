package exec

import "github.com/godwitdb/godwit/sql/expr"

// serial hands on one row at a time. What is above it goes through all of its expressions for a row
// before the next one comes: user variables that are assigned need that.
type serial struct {
	columns
	in   Op
	b    expr.Batch
	rest []int32
}

// NewSerial makes batches of one row each.
func NewSerial(in Op) Op { return &serial{columns: columnsOf(in), in: in} }

// Open implements Op.
func (s *serial) Open(ctx *Ctx) error {
	s.rest = nil
	return s.in.Open(ctx)
}

// Next implements Op.
func (s *serial) Next() (*expr.Batch, error) {
	for len(s.rest) == 0 {
		b, err := s.in.Next()
		if err != nil || b == nil {
			return nil, err
		}
		s.b.N, s.b.Cols, s.rest = b.N, b.Cols, b.Sel
	}
	s.b.Sel, s.rest = s.rest[:1], s.rest[1:]
	return &s.b, nil
}

// Close implements Op.
func (s *serial) Close() error { return s.in.Close() }
