package rig

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Zipf draws 0..n-1 from a zipfian distribution whose exponent is theta; YCSB's is 0.99.
func Zipf(n int, theta float64) func(*rand.Rand) int {
	cum := make([]float64, n)
	sum := 0.0
	for i := range cum {
		sum += 1 / math.Pow(float64(i+1), theta)
		cum[i] = sum
	}
	return func(r *rand.Rand) int {
		i, _ := slices.BinarySearch(cum, r.Float64()*sum)
		return min(i, n-1)
	}
}
