package home

import (
	"math"
	"math/rand/v2"
)

// A Morris counter keeps a count in 8 bits: register v stands for the count
// estimate[v] = a((1+1/a)^v - 1), and goes up with the probability that makes
// the estimate right on average (Morris 1978). With a = 30, counts up to 10
// are nearly exact, the relative error of large ones is about 13 %, and 255
// stands for 128 thousand. The base is no parameter, for registers travel
// between nodes (Summary).
const morrisA = 30

var (
	estimate [256]float64
	half     [256]uint8 // the largest register whose estimate is at most half
)

func init() {
	for v := range estimate {
		estimate[v] = morrisA * (math.Pow(1+1.0/morrisA, float64(v)) - 1)
	}
	for v := range half {
		half[v] = atMost(estimate[v] / 2)
	}
}

// atMost is the largest register whose estimate is at most n.
func atMost(n float64) uint8 {
	v := 0
	for v < 255 && estimate[v+1] <= n {
		v++
	}
	return uint8(v)
}

// steps say what adding one weight does to each register: it becomes to, and one
// more with probability chance/2^64.
type steps [256]struct {
	chance uint64
	to     uint8
}

func makeSteps(weight float64) *steps {
	var s steps
	for v := range s {
		n := estimate[v] + weight
		to := atMost(n)
		s[v].to = to
		if to < 255 {
			share := (n - estimate[to]) / (estimate[to+1] - estimate[to])
			switch { // rounding must not make a certain step a matter of luck
			case share > 1-1e-9:
				s[v].chance = math.MaxUint64
			case share > 1e-9:
				s[v].chance = uint64(share * (1 << 63) * 2)
			}
		}
	}
	return &s
}

func (s *steps) add(v uint8, src rand.Source) uint8 {
	e := s[v]
	if e.chance != 0 && (e.chance == math.MaxUint64 || src.Uint64() < e.chance) {
		return e.to + 1
	}
	return e.to
}

// decayed halves v n times.
func decayed(v uint8, n uint32) uint8 {
	if n > 17 { // 2^17 is above the largest estimate
		return 0
	}
	for ; n > 0; n-- {
		v = half[v]
	}
	return v
}
