package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/wire"
)

// mapWorld is nodes that do nothing but send heartbeats, over an emulated network.
type mapWorld struct {
	net   *wan.Network
	trs   []wan.Transport
	maps  []*peers
	ids   []base.NodeID
	bytes int // of heartbeats
}

const mapPer = 4 // nodes of a region

func newMapWorld(t *testing.T, m *matrix.Matrix, above int) *mapWorld {
	w := &mapWorld{net: wan.NewNetwork(wan.NetOptions{Seed: 1, LAN: wan.LinkSpec{Delay: 250 * time.Microsecond}})}
	w.net.SetOneWay(m.OneWays())
	for i := range m.Len() * mapPer {
		id := base.NodeID(i + 1)
		tr := w.net.Join(id, base.RegionID(i/mapPer+1))
		p := newPeers(id, time.Now)
		p.net.above = above
		tr.HandleOrdered(wire.KindHeartbeat, func(_ base.NodeID, body []byte) {
			var m wire.Heartbeat
			if err := m.UnmarshalVT(body); err != nil {
				t.Error(err)
			}
			p.heard(&m, false)
		})
		if err := tr.Start(); err != nil {
			t.Fatal(err)
		}
		w.ids, w.trs, w.maps = append(w.ids, id), append(w.trs, tr), append(w.maps, p)
	}
	return w
}

// heartbeat has the nodes of which up says so send heartbeats, as Cluster.heartbeat does.
func (w *mapWorld) heartbeat(length time.Duration, up func(int) bool) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for i, p := range w.maps {
			if !up(i) {
				continue
			}
			to := slices.DeleteFunc(slices.Clone(w.ids), func(id base.NodeID) bool { return id == w.ids[i] })
			m := &wire.Heartbeat{Node: uint32(w.ids[i])}
			p.begin(to, m)
			for _, id := range to {
				p.probe(id, m)
				w.bytes += m.SizeVT()
				_ = w.trs[i].Send(id, wire.KindHeartbeat, m)
			}
		}
	}
}

func (w *mapWorld) close(t *testing.T) {
	for _, tr := range w.trs {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.net.Close(); err != nil {
		t.Error(err)
	}
}

// errorsAt are the relative errors of node i's map about pairs of regions other than its own,
// sorted.
func (w *mapWorld) errorsAt(m *matrix.Matrix, i int) (errs []float64, unknown int) {
	for a := range w.ids {
		for b := range w.ids {
			x, y := a/mapPer, b/mapPer
			if x == y || a == i || b == i {
				continue
			}
			d, truth := w.maps[i].between(w.ids[i], w.ids[a], w.ids[b]), m.RoundTrip(x, y)
			if d < 0 {
				unknown++
				continue
			}
			errs = append(errs, float64(max(d-truth, truth-d))/float64(truth))
		}
	}
	slices.Sort(errs)
	return errs, unknown
}

func everybody(int) bool { return true }

// clouds12 is twelve regions of AWS.
func clouds12() (*matrix.Matrix, error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return nil, err
	}
	return m.First(12)
}

// TestCoordinates: 48 nodes with coordinates measure a fraction of the round trips, and know those
// of all others about as well as is stated (docs/design.md); what a node has measured itself is
// exact. Nodes below the threshold measure and tell all.
func TestCoordinates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	m, err := clouds12()
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		probes, bytes float64
		errs          []float64
	}
	measure := func(above int) (r result) {
		synctest.Test(t, func(t *testing.T) {
			w := newMapWorld(t, m, above)
			defer w.close(t)
			w.heartbeat(20*time.Second, everybody)
			before, bytes := w.maps[0].stats(), w.bytes
			const length = 5 * time.Second
			w.heartbeat(length, everybody)
			s := w.maps[0].stats()
			rounds := float64(length / (100 * time.Millisecond))
			r.probes = float64(s.Probes-before.Probes) / rounds
			r.bytes = float64(w.bytes-bytes) / rounds / float64(len(w.ids))
			if s.Coordinates != (above == 32) || s.Peers != len(w.ids)-1 || s.Samples == 0 {
				t.Errorf("%+v", s)
			}
			for i := range 3 {
				errs, unknown := w.errorsAt(m, i*17)
				if unknown > 0 {
					t.Errorf("node %d does not know %d of the round trips", i*17, unknown)
				}
				r.errs = append(r.errs, errs...)
			}
			for b := range w.ids[1:] {
				want := m.RoundTrip(0, (b+1)/mapPer)
				if (b+1)/mapPer == 0 {
					want = 500 * time.Microsecond
				}
				if d, ok := w.maps[0].rtt(w.ids[b+1]); !ok || max(d-want, want-d) > want/50 {
					t.Errorf("node 1 has %v to node %d, which is %v away", d, b+2, want)
				}
			}
		})
		slices.Sort(r.errs)
		return r
	}
	all, few := measure(0), measure(32)
	at := func(r result, q float64) float64 { return r.errs[int(q*float64(len(r.errs)-1))] }
	t.Logf("a node's heartbeats: %.1f probes and %.0f bytes a round; with coordinates %.1f and %.0f", all.probes,
		all.bytes, few.probes, few.bytes)
	t.Logf("errors about others: median %.3f, p90 %.3f, largest %.3f; without coordinates %.3f", at(few, .5),
		at(few, .9), at(few, 1), at(all, 1))
	if all.probes != 47 || at(all, 1) > 0.02 {
		t.Error("without coordinates not all is measured")
	}
	if few.probes > 8 || few.bytes > all.bytes {
		t.Error("coordinates save too little")
	}
	if at(few, .5) > 0.10 || at(few, .9) > 0.25 {
		t.Error("the estimates are worse than stated")
	}
}

// TestCoordinatesComeAndGo: nodes that leave are not estimated from for ever, one that comes back
// is, and without coordinates all is measured again.
func TestCoordinatesComeAndGo(t *testing.T) {
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newMapWorld(t, m, 4)
		defer w.close(t)
		w.heartbeat(10*time.Second, everybody)
		w.heartbeat(5*time.Second, func(i int) bool { return i != 5 })
		if slices.Contains(w.maps[0].net.others, 6) || w.maps[0].stats().Peers != len(w.ids)-2 {
			t.Errorf("node 6 is silent, and counted: %v", w.maps[0].net.others)
		}
		w.heartbeat(3*time.Second, everybody)
		if !slices.Contains(w.maps[0].net.others, 6) {
			t.Error("node 6 is back, and not counted")
		}
		for _, p := range w.maps {
			p.net.above = 0
		}
		w.heartbeat(3*time.Second, everybody)
		for _, p := range w.maps {
			if s := p.stats(); s.Coordinates || s.Estimated != 0 {
				t.Errorf("%+v", s)
			}
			for _, x := range p.all {
				if x.at != nil {
					t.Error("a coordinate is left")
				}
			}
		}
		before := w.maps[0].stats().Probes
		w.heartbeat(time.Second, everybody)
		if n := w.maps[0].stats().Probes - before; n != uint64(10*(len(w.ids)-1)) {
			t.Errorf("%d probes in ten rounds", n)
		}
	})
}
