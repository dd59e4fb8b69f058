package gaussdb

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/txn"
)

// TestTimed has a cluster in each mode carry out each kind of transaction once, at a distance.
func TestTimed(t *testing.T) {
	three, err := matrix.Open(matrix.ThreeCity)
	if err != nil {
		t.Fatal(err)
	}
	b := &gaussdb{Params: rig.Params{Quick: true, Dir: t.TempDir(), Log: io.Discard}, matrix: three, rows: rig.NewMall(1, 2)}
	if b.gtm, err = b.open(t.Context(), "gtm", clock.WantGTM, clock.GTM,
		func(tc *txn.Config) { tc.Reads.OwnersOnly = true }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.gtm.Close(); err != nil {
			t.Error(err)
		}
	}()
	if b.gclock, err = b.open(t.Context(), "gclock", clock.WantGClock, clock.GClock, func(*txn.Config) {}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.gclock.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := b.fill(t.Context(), b.rows); err != nil {
		t.Fatal(err)
	}
	if err := b.place(t.Context(), b.near(40*time.Millisecond), 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 3))
	const region, ware, other = 1, 2, 4 // warehouses of the second region and the third
	trips := func(c *timed, j rig.Job) float64 {
		var tr obs.Trace
		if err := c.Run(t.Context(), region, j, &tr); err != nil {
			t.Fatal(err)
		}
		return tr.RTTs()
	}
	for range 20 {
		for _, c := range b.clusters() {
			trips(c, b.rows.Next(ware)(r))
		}
	}
	if err := rig.Await(t.Context(), func() string { // a busy machine moves the oracle for a while, to this region too
		if got := trips(b.gtm, b.rows.OrderStatus(ware, other, r)); got < 4 {
			return fmt.Sprintf("with an oracle, three reads of another region's owner take %v round trips, want 4", got)
		}
		return ""
	}); err != nil {
		t.Error(err)
	}
	b.gclock.Stale = true
	if err := rig.Await(t.Context(), func() string { // a busy machine makes the consistency point late
		if got := trips(b.gclock, b.rows.OrderStatus(ware, other, r)); got != 0 {
			return fmt.Sprintf("at the consistency point, three reads of another region's rows take %v round trips", got)
		}
		return ""
	}); err != nil {
		t.Error(err)
	}
}
