package wan

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// text is n bytes that compress well, noise n bytes that do not.
func text(rnd *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		b = fmt.Appendf(b, "customer %04d orders %03d pieces;", rnd.IntN(10_000), rnd.IntN(500))
	}
	return b[:n]
}

func noise(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// Whatever is packed, with a setting that changes all the time, comes out as it went in.
func TestPackedBytesComeOutAsTheyWentIn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []byte
	use := Off
	p := &packer{use: func() Compression { return use }, peer: understood}
	var line bytes.Buffer
	for range 400 {
		n := rnd.IntN(2000)
		if rnd.IntN(20) == 0 {
			n = rnd.IntN(3 * chunkMax)
		}
		b := text(rnd, n)
		if rnd.IntN(3) == 0 {
			b = noise(rnd, n)
		}
		use = []Compression{Off, LZ4, Zstd}[rnd.IntN(3)]
		out, err := p.pack(b)
		if err != nil {
			t.Fatal(err)
		}
		if most := n + (n/chunkMax+1)*(chunkHead+64) + n/chunkMax*(chunkBound-chunkMax); len(out) > most {
			t.Fatalf("%d bytes were packed into %d", n, len(out))
		}
		want = append(want, b...)
		line.Write(out)
	}
	sent, wire, raw := line.Len(), 0, 0
	u := &unpacker{r: &line, read: func(w, r int) { wire += w; raw += r }}
	defer u.close()
	got, err := io.ReadAll(u)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes came out of %d: %v", len(got), len(want), err)
	}
	if wire != sent || raw != len(want) {
		t.Errorf("counted %d bytes on the line for %d, not %d for %d", wire, raw, sent, len(want))
	}
}

// What does not shrink is no longer tried all the time, and grows by the chunk's header alone.
func TestNoiseIsSentAsItIs(t *testing.T) {
	for _, c := range []Compression{LZ4, Zstd} {
		rnd := rand.New(rand.NewPCG(1, 2))
		p := &packer{use: func() Compression { return c }, peer: understood}
		plain := 0
		for range 1000 {
			out, err := p.pack(noise(rnd, 1000))
			if err != nil {
				t.Fatal(err)
			}
			if Compression(out[0]) == Off {
				plain++
			}
			if len(out) > 1000+chunkHead+16 {
				t.Fatalf("%s: 1000 bytes of noise became %d", c, len(out))
			}
		}
		if plain < 850 {
			t.Errorf("%s: only %d of 1000 chunks of noise were sent as they are", c, plain)
		}
		// And what shrinks again is noticed.
		for range 2 * poorSkip {
			if _, err := p.pack(text(rnd, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := p.pack(text(rnd, 1000)); err != nil || len(out) > 700 {
			t.Errorf("%s: text after noise takes %d bytes of 1000: %v", c, len(out), err)
		}
	}
}

func TestMalformedChunks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range []Compression{Off, LZ4, Zstd} {
		p := &packer{use: func() Compression { return c }, peer: understood}
		good, err := p.pack(text(rnd, 5000))
		if err != nil {
			t.Fatal(err)
		}
		good = bytes.Clone(good)
		for range 3000 {
			b := bytes.Clone(good)
			for range 1 + rnd.IntN(3) {
				b[rnd.IntN(len(b))] ^= byte(1 + rnd.IntN(255))
			}
			b = b[:rnd.IntN(len(b)+1)]
			u := &unpacker{r: bytes.NewReader(b), read: func(int, int) {}}
			if got, _ := io.ReadAll(u); len(got) > chunkMax {
				t.Fatalf("%d bytes came out of %d damaged ones", len(got), len(b))
			}
			u.close()
		}
	}
}

// Nodes that know nothing of compression are spoken to as before, in both directions.
func TestCompressionWithOlderNodes(t *testing.T) {
	h, err := decodeHello(appendString(hello{version: 1, node: 7}.encode()[:len(helloMagic)+12], "c1"))
	if err != nil || h.cluster != "c1" || h.packs != Off {
		t.Fatal(h, err)
	}
	w, err := decodeWelcome(appendString(welcome{version: 1, node: 7}.encode()[:len(helloMagic)+8], "no"))
	if err != nil || w.text != "no" || w.packs != Off {
		t.Fatal(w, err)
	}
	// An older node dials: its hello ends with the cluster, and its frames are not in chunks.
	_, b := tcpPairWith(t, TCPOptions{}, TCPOptions{})
	b.SetCompression(Zstd)
	b.Handle(wire.KindRead, echo)
	start(t, b)
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Minute))
	old := hello{version: protocolVersion, class: classRPC, region: 3, node: 3, want: 2, cluster: "c1"}.encode()
	out := appendRaw(nil, typeHello, 0, 0, old[:len(old)-1])
	out, err = appendFrame(out, typeRequest, wire.KindRead, 0, 1, kv(41, make([]byte, 5000)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(out); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for _, typ := range []frameType{typeWelcome, typeResponse} {
		f, err := readFrame(r, 1<<20)
		if err != nil || f.typ != typ {
			t.Fatal(f.typ, err)
		}
		if typ == typeResponse && (number(t, f.body) != 42 || len(f.body) < 5000) {
			t.Errorf("the answer is %d with %d bytes", number(t, f.body), len(f.body))
		}
	}
}

// The counters say what crossed the network; inside a region nothing is compressed.
func TestCompressionIsCounted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	payload := text(rnd, 20_000)
	exchange := func(t *testing.T, a, b Transport) {
		t.Helper()
		b.Handle(wire.KindRead, echo)
		start(t, a, b)
		for i := range 20 {
			if err := a.Call(context.Background(), 2, wire.KindRead, kv(uint64(i), payload), &wire.KV{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		exchange(t, a, b)
		// What is written is counted after it is on its way: the last answer may be read before.
		sa, sb := a.Stats()[0], b.Stats()[0]
		for until := time.Now().Add(3 * time.Minute); (sa.WireSent != sb.WireRecv || sb.WireSent != sa.WireRecv) &&
			time.Now().Before(until); time.Sleep(time.Millisecond) {
			sa, sb = a.Stats()[0], b.Stats()[0]
		}
		if sa.StreamSent < 400_000 || sa.StreamRecv < 400_000 {
			t.Errorf("%d bytes of streams sent, %d received", sa.StreamSent, sa.StreamRecv)
		}
		if sa.WireSent != sb.WireRecv || sb.WireSent != sa.WireRecv || sa.StreamSent != sb.StreamRecv {
			t.Errorf("the ends count differently: %+v %+v", sa, sb)
		}
		switch packed := a.(interface{ compression() Compression }).compression() != Off; {
		case packed && 2*sa.WireSent > sa.StreamSent:
			t.Errorf("%d bytes took %d on the wire", sa.StreamSent, sa.WireSent)
		case !packed && sa.WireSent > sa.StreamSent+sa.StreamSent/100:
			t.Errorf("%d bytes took %d on the wire", sa.StreamSent, sa.WireSent)
		}
	})
	t.Run("one region", func(t *testing.T) {
		n := NewNetwork(NetOptions{})
		defer n.Close()
		a, b := n.Join(1, 1), n.Join(2, 1)
		a.SetCompression(Zstd)
		b.SetCompression(Zstd)
		exchange(t, a, b)
		if s := a.Stats()[0]; s.WireSent != s.StreamSent {
			t.Errorf("%d bytes took %d on the wire of one region", s.StreamSent, s.WireSent)
		}
	})
}

// The bandwidth of an emulated link carries what the compression leaves.
func TestCompressionSavesBandwidth(t *testing.T) {
	took := func(c Compression) (d time.Duration) {
		virtual(t, NetOptions{WAN: LinkSpec{Delay: time.Millisecond, Bandwidth: 8e6}}, func(t *testing.T, n *Network) {
			a, b := n.Join(1, 1), n.Join(2, 2)
			a.SetCompression(c)
			b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) { return nil, nil })
			start(t, a, b)
			begin := time.Now()
			if err := a.Call(context.Background(), 2, wire.KindRead,
				kv(1, text(rand.New(rand.NewPCG(7, 8)), 1_000_000)), nil); err != nil {
				t.Fatal(err)
			}
			d = time.Since(begin)
			a.Close()
			b.Close()
		})
		return d
	}
	plain, lz, z := took(Off), took(LZ4), took(Zstd)
	if plain < time.Second || lz > plain*3/4 || z > plain/2 {
		t.Errorf("1 MB over 1 MB/s: %s, with lz4 %s, with zstd %s", plain, lz, z)
	}
}

func TestCongestionControl(t *testing.T) {
	a, b := tcpPairWith(t, TCPOptions{}, TCPOptions{})
	b.Handle(wire.KindRead, echo)
	start(t, a, b)
	wantCode(t, a.SetCongestion("no-such-control"), base.CodeInvalid)
	if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), &wire.KV{}); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("congestion controls are chosen by name on Linux only, where reno is never missing")
	}
	for _, name := range []string{"reno", ""} { // on the connection that is open
		if err := a.SetCongestion(name); err != nil {
			t.Fatal(err)
		}
		if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), &wire.KV{}); err != nil {
			t.Fatal(err)
		}
	}
}
