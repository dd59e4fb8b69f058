package plan

import "math/bits"

func count(s uint64) int  { return bits.OnesCount64(s) }
func lowest(s uint64) int { return bits.TrailingZeros64(s) }
