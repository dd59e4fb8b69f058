package wan

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is how the bytes of links between regions are compressed. It is
// a bit, so that a set of them travels as one byte.
type Compression uint8

// The compressions. Zstd keeps its history along a stream, LZ4 begins anew with each chunk.
const (
	Off  Compression = 0
	LZ4  Compression = 1
	Zstd Compression = 2
)

// understood are the compressions this node can undo.
const understood = LZ4 | Zstd

// String is the name of the algorithm, as settings and metrics show it.
func (c Compression) String() string {
	switch c {
	case Off:
		return "off"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("compression %d", uint8(c))
}

// ParseCompression reads off, lz4 or zstd.
func ParseCompression(s string) (Compression, error) {
	for _, c := range []Compression{Off, LZ4, Zstd} {
		if s == c.String() {
			return c, nil
		}
	}
	return Off, fmt.Errorf("%q is none of off, lz4, zstd", s)
}

// Between regions, where both ends understand it, the frames of a stream travel in
// chunks, which cut the stream of bytes wherever it suits the sender:
//
//	compression (1) | bytes that follow (3) | for LZ4 and zstd: bytes they stand for (3) | bytes
//
// The sender chooses for every chunk, so that the setting can change at any time
// and what does not shrink is sent as it is. Frames have checksums of their own.
const (
	chunkMax   = 128 << 10 // of the stream's bytes in a chunk
	chunkHead  = 7
	plainHead  = 4
	chunkBound = chunkMax + chunkMax/128 + 1024 // of what zstd makes of them
	// Less than this is not worth the work: LZ4 finds nothing in it, zstd little.
	minLZ4, minZstd = 256, 96
	// After so many chunks in a row that did not shrink by a sixteenth, as many are sent as they
	// are.
	poorRun, poorSkip = 4, 32
	// zstdWindow is how far back zstd looks: what each of the few dozen streams of a node keeps in
	// memory, three times over.
	zstdWindow = 64 << 10
)

// packer makes chunks of the bytes of one stream.
type packer struct {
	use  func() Compression // what the sender wants now
	peer Compression        // what the receiver understands
	out  []byte

	lz   lz4.Compressor
	zs   *zstd.Encoder
	zbuf bytes.Buffer
	poor int // chunks in a row that did not shrink
	skip int // chunks to send as they are
}

// pack encodes b; the answer is valid until the next call.
func (p *packer) pack(b []byte) ([]byte, error) {
	p.out = p.out[:0]
	for len(b) > 0 {
		n := min(len(b), chunkMax)
		if err := p.chunk(b[:n]); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	if cap(p.out) > spareMax {
		out := p.out
		p.out = nil
		return out, nil
	}
	return p.out, nil
}

// chunk appends one chunk that holds b.
func (p *packer) chunk(b []byte) error {
	wanted := p.use() & p.peer
	c := p.choose(wanted, len(b))
	at, size := len(p.out), 0
	var err error
	switch c {
	case LZ4:
		if size, err = p.lz4(b, at); size == 0 || size >= len(b) {
			c = Off
		}
	case Zstd:
		size, err = p.zstd(b, at)
	}
	if err != nil {
		return err
	}
	if c == Off {
		size = len(b)
		p.plain(b, at)
	} else {
		p.out = p.out[:at+chunkHead+size]
		p.out[at] = byte(c)
		putUint24(p.out[at+1:], size)
		putUint24(p.out[at+4:], len(b))
	}
	if wanted != Off && len(b) >= minLZ4 {
		p.learn(size, len(b))
	}
	return nil
}

// choose is what to try on n bytes: nothing where little can come of it, or has come of it lately.
func (p *packer) choose(wanted Compression, n int) Compression {
	switch {
	case wanted == LZ4 && n < minLZ4, wanted == Zstd && n < minZstd:
		return Off
	case wanted != Off && p.skip > 0:
		p.skip--
		return Off
	}
	return wanted
}

// lz4 puts the compressed bytes behind a chunk's head at at; 0: it found nothing.
func (p *packer) lz4(b []byte, at int) (int, error) {
	p.out = grow(p.out, chunkHead+lz4.CompressBlockBound(len(b)))
	n, err := p.lz.CompressBlock(b, p.out[at+chunkHead:])
	if err != nil {
		return 0, fmt.Errorf("lz4: %w", err)
	}
	return n, nil
}

// zstd is like lz4, but what it makes is sent even if it is longer: it is part of the receiver's
// history.
func (p *packer) zstd(b []byte, at int) (int, error) {
	if p.zs == nil {
		var err error
		if p.zs, err = zstd.NewWriter(&p.zbuf, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow),
			zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)); err != nil {
			return 0, fmt.Errorf("zstd: %w", err)
		}
	}
	p.zbuf.Reset()
	_, err := p.zs.Write(b)
	if err == nil {
		err = p.zs.Flush()
	}
	if err != nil {
		return 0, fmt.Errorf("zstd: %w", err)
	}
	size := p.zbuf.Len()
	p.out = grow(p.out, chunkHead+size)
	copy(p.out[at+chunkHead:], p.zbuf.Bytes())
	return size, nil
}

// plain makes a chunk at at that holds b as it is.
func (p *packer) plain(b []byte, at int) {
	p.out = grow(p.out[:at], plainHead+len(b))
	p.out[at] = byte(Off)
	putUint24(p.out[at+1:], len(b))
	copy(p.out[at+plainHead:], b)
}

// learn counts chunks in a row that did not shrink; after some it stops trying for a while.
func (p *packer) learn(size, raw int) {
	switch {
	case size <= raw-raw/16 || p.skip > 0:
		p.poor = 0
	default:
		if p.poor++; p.poor == poorRun {
			p.poor, p.skip = 0, poorSkip
		}
	}
}

func putUint24(b []byte, n int) { b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16) }

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// unpacker is the reader of a stream that travels in chunks.
type unpacker struct {
	r    io.Reader
	read func(wire, raw int) // counts

	left []byte // decoded and not yet read
	buf  []byte
	body []byte
	zs   *zstd.Decoder
	feed bytes.Reader // what the zstd decoder may read: the chunks that came
}

func (u *unpacker) Read(b []byte) (int, error) {
	for len(u.left) == 0 {
		if err := u.chunk(); err != nil {
			return 0, err
		}
	}
	n := copy(b, u.left)
	u.left = u.left[n:]
	return n, nil
}

// chunk reads one chunk, and decodes it into left.
func (u *unpacker) chunk() error {
	c, size, raw, err := u.head()
	if err != nil {
		return err
	}
	u.body = sized(u.body, size)
	if _, err := io.ReadFull(u.r, u.body); err != nil {
		return cutOff(err)
	}
	head := chunkHead
	switch c {
	case Off:
		head = plainHead
		u.left = u.body
	case LZ4:
		err = u.lz4(raw)
	case Zstd:
		err = u.zstd(raw)
	}
	if err != nil {
		return fmt.Errorf("malformed chunk: %w", err)
	}
	u.read(head+size, raw)
	return nil
}

// head reads what a chunk says of itself: how many bytes follow, and how many they stand for.
func (u *unpacker) head() (c Compression, size, raw int, err error) {
	var head [chunkHead]byte
	if _, err := io.ReadFull(u.r, head[:plainHead]); err != nil {
		return 0, 0, 0, err
	}
	c, size = Compression(head[0]), uint24(head[1:])
	raw = size
	if c != Off {
		if _, err := io.ReadFull(u.r, head[plainHead:]); err != nil {
			return 0, 0, 0, cutOff(err)
		}
		raw = uint24(head[4:])
	}
	if size == 0 || raw == 0 || raw > chunkMax || size > chunkBound || c != Off && c != LZ4 && c != Zstd {
		return 0, 0, 0, fmt.Errorf("malformed chunk: %s, %d bytes for %d", c, size, raw)
	}
	return c, size, raw, nil
}

func (u *unpacker) lz4(raw int) error {
	u.buf = sized(u.buf, raw)
	if k, err := lz4.UncompressBlock(u.body, u.buf); err != nil || k != raw {
		return fmt.Errorf("lz4 gives %d bytes, not %d: %v", k, raw, err)
	}
	u.left = u.buf
	return nil
}

func (u *unpacker) zstd(raw int) error {
	u.buf = sized(u.buf, raw)
	u.feed.Reset(u.body)
	if u.zs == nil {
		var err error
		if u.zs, err = zstd.NewReader(&u.feed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow), zstd.IgnoreChecksum(true)); err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
	}
	if k, err := io.ReadFull(u.zs, u.buf); err != nil {
		return fmt.Errorf("zstd gives %d bytes, not %d: %v", k, raw, err)
	}
	if u.feed.Len() != 0 {
		return fmt.Errorf("zstd leaves %d bytes", u.feed.Len())
	}
	u.left = u.buf
	return nil
}

func (u *unpacker) close() {
	if u.zs != nil {
		u.zs.Close()
	}
}

func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *core) compression() Compression { return Compression(c.packing.Load()) }

// SetCompression implements [Transport].
func (c *core) SetCompression(to Compression) { c.packing.Store(uint32(to)) }

// SetBatching implements [Transport].
func (c *core) SetBatching(on bool) { c.single.Store(!on) }

// packs reports whether a stream between two nodes travels in chunks: they are
// in different regions, and both know how.
func packs(a, b base.RegionID, ours, theirs Compression) bool {
	return ours != Off && theirs != Off && a != 0 && b != 0 && a != b
}

// sizer says what frames take on an emulated link, which has no streams of bytes: as if
// the compression began anew with each of them. On TCP zstd does better, as it remembers.
type sizer struct {
	once sync.Once
	zs   *zstd.Encoder
	pool sync.Pool // *sizing
}

type sizing struct {
	lz  lz4.Compressor
	buf []byte
}

func (z *sizer) size(c Compression, b []byte) int {
	if len(b) < minZstd || c == LZ4 && len(b) < minLZ4 || c == Off {
		return plainHead + len(b)
	}
	s, ok := z.pool.Get().(*sizing)
	if !ok {
		s = new(sizing)
	}
	defer z.pool.Put(s)
	n := 0
	if c == LZ4 {
		s.buf = sized(s.buf, lz4.CompressBlockBound(len(b)))
		n, _ = s.lz.CompressBlock(b, s.buf) // 0 if it fails
	} else {
		z.once.Do(func() {
			// The options are constants: there is no error.
			z.zs, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow),
				zstd.WithEncoderConcurrency(2),
				zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		})
		s.buf = z.zs.EncodeAll(b, s.buf[:0])
		n = len(s.buf)
	}
	if n == 0 || n >= len(b) {
		return plainHead + len(b)
	}
	return chunkHead + n
}

// SetCongestion implements [Transport]; emulated links have none.
func (c *core) SetCongestion(string) error { return nil }
