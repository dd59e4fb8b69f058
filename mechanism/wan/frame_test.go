package wan

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

func TestFrameRoundTrip(t *testing.T) {
	var buf []byte
	var err error
	for i := range 3 {
		buf, err = appendFrame(buf, typeRequest, wire.KindRead, time.Duration(i)*time.Millisecond, uint64(i),
			kv(uint64(i), make([]byte, i<<19)), 64<<20)
		if err != nil {
			t.Fatal(err)
		}
	}
	buf = appendRaw(buf, typeHello, 0, 9, []byte("x"))
	r := bufio.NewReaderSize(bytes.NewReader(buf), 512)
	for i := range 3 {
		f, err := readFrame(r, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		if f.typ != typeRequest || f.kind != wire.KindRead || f.id != uint64(i) ||
			f.timeout != time.Duration(i)*time.Millisecond || number(t, f.body) != uint64(i) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if f, err := readFrame(r, 64<<20); err != nil || string(f.body) != "x" {
		t.Error(err)
	}
	if _, err := readFrame(r, 64<<20); err != io.EOF {
		t.Error(err)
	}
}

func TestTimeoutsThatDoNotFit(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		0: 0, time.Nanosecond: time.Microsecond, time.Hour: time.Hour, 100 * time.Hour: 0,
	} {
		b, _ := appendFrame(nil, typeRequest, wire.KindRead, in, 1, nil, 1<<20)
		if f, err := parseFrame(b); err != nil || f.timeout != want {
			t.Errorf("%v became %v (%v)", in, f.timeout, err)
		}
	}
}

func TestDamageIsNoticed(t *testing.T) {
	good, _ := appendFrame(nil, typeSend, wire.KindRaft, 0, 7, kv(1, []byte("payload")), 1<<20)
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := readFrame(bufio.NewReader(bytes.NewReader(b)), 1<<20); err == nil {
			t.Fatalf("bit %d flipped unnoticed", bit)
		}
	}
	for n := 1; n < len(good); n++ {
		if _, err := readFrame(bufio.NewReader(bytes.NewReader(good[:n])), 1<<20); err != io.ErrUnexpectedEOF {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	_, err := readFrame(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n\r\n")), 1<<20)
	if err == nil || !strings.Contains(err.Error(), "is the peer a Godwit node") {
		t.Error(err)
	}
	// A newer version is named as such.
	b := bytes.Clone(good)
	b[8]++
	putHeaderCRC(b)
	if _, err := parseFrame(b); err == nil || !strings.Contains(err.Error(), "frame version 2, this node speaks 1") {
		t.Error(err)
	}
}

func FuzzFrame(f *testing.F) {
	good, _ := appendFrame(nil, typeSend, wire.KindRaft, 0, 7, kv(1, []byte("payload")), 1<<20)
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add(appendRaw(nil, typeHello, 0, 0, hello{version: 1, node: 3, cluster: "c"}.encode()))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(in), 64)
		used := 0
		for {
			fr, err := readFrame(r, 1<<16)
			if err != nil {
				break
			}
			// What was accepted encodes to the same bytes.
			b := make([]byte, fr.size)
			copy(b[headerLen:], fr.body)
			putHeader(b, fr.typ, fr.kind, fr.timeout, fr.id)
			if fr.typ != typeHello && fr.typ != typeWelcome && !bytes.Equal(b, in[used:used+fr.size]) {
				t.Fatalf("%x encodes to %x", in[used:used+fr.size], b)
			}
			used += fr.size
			decodeHello(fr.body)
			decodeWelcome(fr.body)
			errorOf(fr.body)
		}
		// The same with a good checksum, so that what is behind it is reached too.
		if len(in) >= headerLen {
			b := bytes.Clone(in)
			putHeaderCRC(b)
			if fr, err := parseFrame(b); err == nil && len(fr.body) != len(in)-headerLen {
				t.Fatal("body length")
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{version: 1, class: 2, region: 3, node: 4, want: 5, cluster: "c"}.encode())
	f.Add(welcome{version: 1, code: base.CodeInvalid, region: 3, node: 4, text: "no"}.encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if h, err := decodeHello(in); err == nil {
			if again, err := decodeHello(h.encode()); len(h.cluster) < 1<<15 && (err != nil || again != h) {
				t.Fatalf("%+v became %+v (%v)", h, again, err)
			}
			judge(h, 1, "c")
		}
		if w, err := decodeWelcome(in); err == nil && len(w.text) < 1<<15 {
			if again, err := decodeWelcome(w.encode()); err != nil || again != w {
				t.Fatalf("%+v became %+v (%v)", w, again, err)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	ok := hello{version: protocolVersion, node: 3, cluster: "c", want: 1}
	for _, c := range []struct {
		change  func(*hello)
		cluster string
		code    base.Code
		text    string
	}{
		{func(h *hello) {}, "c", welcomed, ""},
		{func(h *hello) { h.node, h.cluster, h.want = 0, "", 0 }, "c", welcomed, ""},
		{func(h *hello) { h.version++ }, "c", base.CodeInvalid, "run the same release"},
		{func(h *hello) { h.class = numClasses }, "c", base.CodeInvalid, "unknown stream class"},
		{func(h *hello) {}, "", base.CodeUnavailable, "godwit init"},
		{func(h *hello) { h.cluster = "d" }, "c", base.CodeInvalid, `belongs to cluster "c", not to "d"`},
		{func(h *hello) { h.want = 2 }, "c", base.CodeUnavailable, "this is node 1, not node 2"},
		{func(h *hello) { h.node = 1 }, "c", base.CodeInvalid, "two processes run as node 1"},
	} {
		h := ok
		c.change(&h)
		code, text := judge(h, 1, c.cluster)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%+v: %v %q", h, code, text)
		}
	}
}
