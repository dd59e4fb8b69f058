package wan

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// kv is a request or answer with a number and a payload.
func kv(n uint64, payload []byte) *wire.KV { return &wire.KV{Ts: n, Value: payload} }

// number decodes what kv made.
func number(t testing.TB, body []byte) uint64 {
	var m wire.KV
	if err := m.UnmarshalVT(body); err != nil {
		t.Errorf("body: %v", err)
	}
	return m.Ts
}

// echo answers n with n+1 and the same payload.
func echo(ctx context.Context, _ base.NodeID, body []byte) (Msg, error) {
	var m wire.KV
	if err := m.UnmarshalVT(body); err != nil {
		return nil, err
	}
	m.Ts++
	return &m, nil
}

// pairMaker makes two connected transports that are not started; both end with the test.
type pairMaker func(t testing.TB, lim Limits) (a, b Transport)

func tcpPair(t testing.TB, lim Limits) (Transport, Transport) {
	return tcpPairWith(t, TCPOptions{Limits: lim}, TCPOptions{Limits: lim})
}

func tcpPairWith(t testing.TB, ao, bo TCPOptions) (*TCP, *TCP) {
	mk := func(o TCPOptions, id base.NodeID) *TCP {
		if o.Self == 0 {
			o.Self = id
		}
		if o.ClusterID == "" {
			o.ClusterID = "c1"
		}
		o.Region = base.RegionID(id)
		o.Listen = "127.0.0.1:0"
		o.RetryMin, o.RetryMax = time.Millisecond, 20*time.Millisecond
		tr, err := NewTCP(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	a, b := mk(ao, 1), mk(bo, 2)
	a.SetPeer(2, b.Addr().String(), 2)
	b.SetPeer(1, a.Addr().String(), 1)
	return a, b
}

func netPair(t testing.TB, lim Limits) (Transport, Transport) {
	n := NewNetwork(NetOptions{Limits: lim})
	t.Cleanup(func() { n.Close() })
	return n.Join(1, 1), n.Join(2, 2)
}

// onBoth runs a test against both transports.
func onBoth(t *testing.T, f func(t *testing.T, mk pairMaker)) {
	t.Run("tcp", func(t *testing.T) { f(t, tcpPair) })
	t.Run("net", func(t *testing.T) { f(t, netPair) })
	for _, c := range []Compression{LZ4, Zstd} {
		with := func(mk pairMaker) pairMaker {
			return func(t testing.TB, lim Limits) (Transport, Transport) {
				a, b := mk(t, lim)
				a.SetCompression(c)
				b.SetCompression(c)
				return a, b
			}
		}
		t.Run("tcp-"+c.String(), func(t *testing.T) { f(t, with(tcpPair)) })
		t.Run("net-"+c.String(), func(t *testing.T) { f(t, with(netPair)) })
	}
}

// virtual runs f on virtual time with an emulated network.
func virtual(t *testing.T, opt NetOptions, f func(t *testing.T, n *Network)) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(opt)
		defer n.Close()
		f(t, n)
	})
}

func start(t testing.TB, ts ...Transport) {
	t.Helper()
	for _, tr := range ts {
		if err := tr.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantCode(t testing.TB, err error, code base.Code) {
	t.Helper()
	var e *base.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %v", err, code)
	}
}

// rawListener is a socket for peers that misbehave.
func rawListener(t testing.TB) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// putHeaderCRC makes the checksum of a tampered frame right.
func putHeaderCRC(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
}
