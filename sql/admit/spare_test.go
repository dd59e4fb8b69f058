package admit

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSpare: a statement that computes for long gets helpers for the processors that nobody uses,
// none while others compute on them or short statements come, and helpers are told to end when
// somebody waits.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(3)
		p.Delay = nil
		if none := (&Turn{}).Spare(); none != nil || (*Turn)(nil).Pooled() {
			t.Error("a helper without a pool")
		}
		one, two := p.Turn(Reading), p.Turn(Reading)
		if one.Spare() != nil {
			t.Error("a helper for a statement that has not computed")
		}
		begin := func(turn *Turn) {
			for range 8 {
				_ = turn.Yield(t.Context())
				time.Sleep(time.Millisecond)
			}
			_ = turn.Yield(t.Context())
		}
		begin(&one)
		a, b := one.Spare(), one.Spare()
		if a == nil || b == nil || one.Spare() != nil {
			t.Fatal("not two helpers on three processors")
		}
		if !a.Keep() || !b.Keep() {
			t.Error("helpers must end, and nobody computes")
		}
		begin(&two)
		if a.Keep() {
			t.Error("a helper goes on where another statement wants to compute")
		}
		a.End()
		if !b.Keep() {
			t.Error("the other helper must end, too")
		}
		two.End()
		if a = one.Spare(); a == nil {
			t.Error("no helper when the other statement has ended")
		}
		a.End()
		b.End()
		one.End()
		time.Sleep(time.Minute)
		if p.helpers != 0 {
			t.Errorf("%d helpers are left", p.helpers)
		}
	})
}

// TestSpareShort: while short statements come, a processor is left to them.
func TestSpareShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		p.Delay = nil
		one := p.Turn(Reading)
		defer one.End()
		helped := func(shorts int) (n int) {
			for range 3000 {
				for range shorts {
					if pass, err := p.Gate.Enter(t.Context(), "b", false); err != nil {
						t.Error(err)
					} else {
						pass.Leave(false)
					}
				}
				_ = one.Yield(t.Context())
				if h := one.Spare(); h != nil {
					n++
					time.Sleep(time.Millisecond)
					h.End()
				} else {
					time.Sleep(time.Millisecond)
				}
			}
			return n
		}
		if n := helped(0); n < 2900 {
			t.Errorf("%d steps of 3000 had a helper, and nobody else computes", n)
		}
		if n := helped(1); n > 2000 {
			t.Errorf("%d steps of 3000 had a helper beside short statements", n)
		}
		one.End()
		time.Sleep(time.Minute)
	})
}
