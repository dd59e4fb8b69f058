package ddl

import (
	"context"
	"testing"
)

// TestForgetBuilt: of the statements that fill indexes only those are kept that go on.
func TestForgetBuilt(t *testing.T) {
	g := &Env{}
	over, end := context.WithCancel(t.Context())
	g.building.Store(indexOf{1, 1}, over)
	g.building.Store(indexOf{1, 2}, t.Context())
	end()
	g.forgetBuilt()
	if _, ok := g.building.Load(indexOf{1, 1}); ok {
		t.Error("a statement that is over is kept")
	}
	if _, ok := g.building.Load(indexOf{1, 2}); !ok {
		t.Error("a statement that goes on is forgotten")
	}
}
