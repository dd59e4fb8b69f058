package session

import "context"

// Grants are what a statement has made of users and grants: in force here, and not durable yet.
type Grants interface {
	// Write makes them durable.
	Write(ctx context.Context) error
	// Drop takes them back.
	Drop()
}

// WriteGrants makes what the statement has made of users and grants durable. Its client must not be
// told before.
func (s *Session) WriteGrants(ctx context.Context) error {
	g := s.Stmt.Grants
	if g == nil {
		return nil
	}
	s.Stmt.Grants = nil
	return g.Write(ctx)
}

// Failed takes back what a statement that fails has done outside of its transaction.
func (s *Session) Failed() {
	s.DropGrants()
	if off := s.Stmt.CallOff; off != nil {
		s.Stmt.CallOff = nil
		off()
	}
}

// DropGrants takes it back.
func (s *Session) DropGrants() {
	if g := s.Stmt.Grants; g != nil {
		s.Stmt.Grants = nil
		g.Drop()
	}
}
