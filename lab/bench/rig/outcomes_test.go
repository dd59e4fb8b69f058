package rig

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestOutcomes(t *testing.T) {
	var s Outcomes
	for i := range 100 {
		s = append(s, Outcome{At: time.Duration(i) * 100 * time.Millisecond,
			lat: time.Duration(i+1) * time.Millisecond, hops: 2, home: i % 2})
	}
	s = s.Where(func(x *Outcome) bool { return x.At < 4*time.Second || x.At >= 7*time.Second })
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"rate", s.Between(0, 4*time.Second).Rate(4 * time.Second), 10},
		{"median", s.Between(0, 4*time.Second).MS(.5), 21},
		{"last", s.MS(1), 100},
		{"mean", s.Between(0, 4*time.Second).Mean(), 20.5},
		{"round trips", s.MeanTrips(), 1},
		{"of a region", float64(len(s.From(1))), 35},
		{"dip", s.Least(3*time.Second, 9*time.Second, time.Second/2), 0},
		{"recovery", s.Back(4*time.Second, 10*time.Second, 10).Seconds(), 3},
		{"none", s.Back(4*time.Second, 6*time.Second, 10).Seconds(), 2},
	} {
		if d := c.got - c.want; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestZipf(t *testing.T) {
	const jobs, pairs = 10_000, 300
	r := rand.New(rand.NewPCG(1, 2))
	z, first := Zipf(pairs, .99), 0
	for range jobs {
		if i := z(r); i < 0 || i >= pairs {
			t.Fatal(i)
		} else if i == 0 {
			first++
		}
	}
	if first < jobs/8 || first > jobs/4 { // one in 6.4
		t.Errorf("the hottest of %d pairs was drawn %d times in %d", pairs, first, jobs)
	}
}
