package workload

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// newRand makes a generator from the seed and from numbers that identify its user.
func newRand(seed uint64, who ...uint64) *rand.Rand {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range who {
		h = mix(h ^ w)
	}
	return rand.New(rand.NewPCG(seed, h))
}

// mix is the finaliser of splitmix64, a bijection whose output looks random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between draws uniformly from [lo, hi].
func between(rng *rand.Rand, lo, hi int) int { return lo + rng.IntN(hi-lo+1) }

// chance is true with probability p.
func chance(rng *rand.Rand, p float64) bool { return rng.Float64() < p }

// 64 characters, so that six random bits make one; none needs escaping in SQL.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.-"

// appendAlpha appends n random characters.
func appendAlpha(b []byte, rng *rand.Rand, n int) []byte {
	for n > 0 {
		bits := rng.Uint64()
		for k := 0; k < 10 && n > 0; k++ {
			b = append(b, alphabet[bits&63])
			bits >>= 6
			n--
		}
	}
	return b
}

// alpha is a string of lo to hi random characters (a-string of TPC-C 4.3.2.2).
func alpha(rng *rand.Rand, lo, hi int) string {
	return string(appendAlpha(make([]byte, 0, hi), rng, between(rng, lo, hi)))
}

// digits is a string of n random digits (n-string of TPC-C 4.3.2.2).
func digits(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + rng.IntN(10))
	}
	return string(b)
}

// zipf draws ranks from 0 with probability proportional to 1/(rank+1)^theta, by the method of Gray
// et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), which YCSB uses.
// The number of items may grow. Theta 0 is the uniform distribution.
type zipf struct {
	theta, alpha, zeta2 float64
	n                   int     // number of items zetan is for
	zetan, eta          float64 // of n items
}

func newZipf(n int, theta float64) *zipf {
	z := &zipf{theta: theta, alpha: 1 / (1 - theta), zeta2: 1 + math.Pow(0.5, theta)}
	z.grow(n)
	return z
}

// grow extends the sum to n items, adding only the new terms.
func (z *zipf) grow(n int) {
	if n <= z.n {
		return
	}
	if z.theta > 0 {
		for i := z.n + 1; i <= n; i++ {
			z.zetan += math.Pow(float64(i), -z.theta)
		}
		z.eta = (1 - math.Pow(2/float64(n), 1-z.theta)) / (1 - z.zeta2/z.zetan)
	}
	z.n = n
}

// next draws a rank below n; n must not shrink between calls.
func (z *zipf) next(rng *rand.Rand, n int) int {
	if z.theta == 0 || n < 3 {
		// The formula's constants are not defined for two items; the rank then follows directly.
		if z.theta == 0 || n == 1 {
			return rng.IntN(n)
		}
		if rng.Float64()*z.zeta2 < 1 {
			return 0
		}
		return 1
	}
	z.grow(n)
	u := rng.Float64()
	uz := u * z.zetan
	switch {
	case uz < 1:
		return 0
	case uz < z.zeta2:
		return 1
	}
	return min(int(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), n-1)
}

// clone shares what was computed with another client; both may grow on their own.
func (z *zipf) clone() *zipf { c := *z; return &c }

// scatter maps ranks to items one to one, so that popular items are not neighbours.
type scatter struct{ n, mult uint64 }

func newScatter(n int) scatter {
	m := max(uint64(float64(n)*0.6180339887), 1)
	for gcd(m, uint64(n)) != 1 {
		m++
	}
	return scatter{uint64(n), m}
}

func (s scatter) item(rank int) int {
	hi, lo := bits.Mul64(uint64(rank), s.mult)
	_, r := bits.Div64(hi%s.n, lo, s.n)
	return int(r)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// split returns the part [lo, hi) of n items that belongs to region r of k.
func split(n, r, k int) (lo, hi int) { return n * r / k, n * (r + 1) / k }

// other draws an element of [0, k) that is not r; k must be at least 2.
func other(rng *rand.Rand, r, k int) int {
	o := rng.IntN(k - 1)
	if o >= r {
		o++
	}
	return o
}
