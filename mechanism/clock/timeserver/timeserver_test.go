package timeserver

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
)

func listen(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// covers reports whether true time, here the process's, lies within the bounds of a reading that is
// off by off.
func covers(t *testing.T, src clock.Source, off time.Duration) time.Duration {
	t.Helper()
	before := base.FromTime(time.Now())
	now, bound := src.Read()
	after := base.FromTime(time.Now())
	if lo, hi := now.Add(-bound), now.Add(bound); lo > after.Add(off) || hi < before.Add(off) {
		t.Errorf("the bounds %s to %s leave out true time %s", lo, hi, before.Add(off))
	}
	return bound
}

// TestClient: a client's bounds cover its server's time; without answers they widen; it takes up
// answers again.
func TestClient(t *testing.T) {
	src := clock.NewSimulated(time.Millisecond, 1)
	src.Set(time.Hour, 0, 0)
	conn := listen(t)
	addr := conn.LocalAddr().String()
	s := Serve(conn, src)
	c, err := Dial(addr, time.Millisecond, 3*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first := covers(t, c, time.Hour)
	if first < time.Millisecond {
		t.Errorf("the bound %s is below the server's own", first)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var silent, later time.Duration
	for have := c.answers.Load() + 1; have != c.answers.Load(); { // again if an answer came
		have = c.answers.Load()
		now := time.Now()
		_, silent = c.ReadAt(now)
		_, later = c.ReadAt(now.Add(time.Minute))
	}
	// 200 ppm of a minute
	if grown := later - silent; grown < 11*time.Millisecond || grown > 13*time.Millisecond {
		t.Errorf("within a minute of silence the bound grows by %s", grown)
	}
	covers(t, c, time.Hour)
	again, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s = Serve(again, src)
	defer s.Close()
	have := c.answers.Load()
	for deadline := time.Now().Add(3 * time.Minute); c.answers.Load() == have; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("answers are not taken up again")
		}
	}
	covers(t, c, time.Hour)
}

// TestBadDatagrams: what is no answer to an open question changes nothing, and is counted.
func TestBadDatagrams(t *testing.T) {
	conn := listen(t)
	s := Serve(conn, clock.NewSimulated(time.Millisecond, 1))
	defer s.Close()
	c, err := Dial(conn.LocalAddr().String(), time.Hour, 3*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := *c.newest.Load()
	made := make([]byte, answerLen)
	copy(made, "godwitt1") // right but for the number
	for _, b := range [][]byte{nil, {1}, made, made[:answerLen-1], make([]byte, answerLen)} {
		c.take(b, time.Now())
	}
	if *c.newest.Load() != before || c.late.Load() != 1 || c.bad.Load() != 4 {
		t.Errorf("%v", c.Counts())
	}
	// A server that claims nonsense is not believed either.
	nonce := [nonceLen]byte{7}
	for _, now := range []uint64{0, 1<<64 - 1} {
		c.sent[nonce] = time.Now()
		b := append(append([]byte{}, made...), 0)[:answerLen]
		copy(b[8:], nonce[:])
		for i := range 8 {
			b[questionLen+i] = byte(now >> (56 - 8*i))
		}
		c.take(b, time.Now())
	}
	if *c.newest.Load() != before {
		t.Error("a time that is none was taken")
	}
	// The server answers questions only, and with no more bytes than it got.
	for _, b := range [][]byte{{1}, make([]byte, answerLen), make([]byte, 200)} {
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(3 * time.Minute); s.Ignored.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 3 bad questions ignored", s.Ignored.Load())
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	conn := listen(t)
	addr := conn.LocalAddr().String()
	conn.Close()
	if c, err := Dial(addr, time.Millisecond, 50*time.Millisecond); err == nil {
		c.Close()
		t.Error("a source without time")
	}
}

// TestSilent: people are told when a server does not answer any more.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{addr: "a:1"}
		for _, x := range []struct {
			ago  time.Duration
			want string
		}{{time.Second, "time server a:1"}, {7500 * time.Millisecond, "time server a:1, " + clock.Silent + "7s"}} {
			at := time.Now().Add(-x.ago)
			c.heard.Store(&at)
			if got := c.Name(); got != x.want {
				t.Errorf("%v after its last word: %q, want %q", x.ago, got, x.want)
			}
		}
	})
}

// TestSample is the arithmetic: half the round trip each way, then the drift.
func TestSample(t *testing.T) {
	at := time.Now()
	s := clock.Sample{Now: 1_000_000_000_000, Bound: time.Millisecond, Sent: at, Arrived: at.Add(4 * time.Millisecond)}
	now, bound := s.At(at.Add(10*time.Second + 4*time.Millisecond))
	if want := base.Timestamp(1_000_000_000_000).Add(10*time.Second + 2*time.Millisecond); now != want {
		t.Errorf("it is %s, want %s", now, want)
	}
	if want := 3*time.Millisecond + 2*time.Millisecond; (bound - want).Abs() > 2*time.Microsecond {
		t.Errorf("bound %s, want about %s", bound, want)
	}
	near := clock.Sample{Now: 1_000_000_000_000, Bound: time.Millisecond, Sent: at, Arrived: at.Add(time.Millisecond)}
	if !near.Better(&s, at.Add(5*time.Millisecond)) || s.Better(&near, at.Add(5*time.Millisecond)) {
		t.Error("the longer round trip is taken for the better sample")
	}
}
