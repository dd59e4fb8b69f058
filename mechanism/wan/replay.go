package wan

import (
	"fmt"
	"io"
	"time"
)

// Replayed is what a compression makes of the traffic of one stream.
type Replayed struct {
	Stream, Wire int           // bytes before and after
	Pack, Unpack time.Duration // work at the two ends
}

// Replay passes the writes of one stream through a compression, as a connection would.
func Replay(c Compression, writes [][]byte) (r Replayed, err error) {
	p := &packer{use: func() Compression { return c }, peer: understood}
	line := &replayLine{}
	u := &unpacker{r: line, read: func(wire, raw int) {}}
	defer u.close()
	got := make([]byte, chunkMax)
	for _, b := range writes {
		begin := time.Now()
		out, err := p.pack(b)
		packed := time.Now()
		if err != nil {
			return r, err
		}
		line.b = out
		for left := len(b); left > 0; {
			n, err := u.Read(got)
			if err != nil {
				return r, fmt.Errorf("replay with %s: %w", c, err)
			}
			left -= n
		}
		r.Pack += packed.Sub(begin)
		r.Unpack += time.Since(packed)
		r.Stream += len(b)
		r.Wire += len(out)
	}
	return r, nil
}

type replayLine struct{ b []byte }

func (l *replayLine) Read(b []byte) (int, error) {
	if len(l.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, l.b)
	l.b = l.b[n:]
	return n, nil
}
