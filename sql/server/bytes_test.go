package server

import (
	"crypto/tls"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// recorded is what a client sends that logs in without a password, and does a bit of everything.
func recorded(t *testing.T, s *Server) []byte {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sent []byte
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		up, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		go io.Copy(c, up)
		for b := make([]byte, 1<<16); ; {
			n, err := c.Read(b)
			sent = append(sent, b[:n]...)
			if _, werr := up.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	c, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/test?multiStatements=true", l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	c.SetMaxOpenConns(1)
	exec(t, c, "SELECT 1; SELECT 'x' FROM t WHERE id = 1")
	exec(t, c, "INSERT INTO t VALUES (?, ?)", 1, "y")
	query(t, c, "SELECT id, b FROM t WHERE b LIKE ? AND id < ?", "%y", 2.5)
	query(t, c, "SHOW TABLES")
	if err := c.Ping(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	wg.Wait()
	return sent
}

// mutated changes some bytes, takes some out, doubles some, or replaces all.
func mutated(random *rand.Rand, b []byte) []byte {
	out := append([]byte(nil), b...)
	switch random.IntN(5) {
	case 0:
		out = make([]byte, random.IntN(500))
		for i := range out {
			out[i] = byte(random.Uint32())
		}
	case 1:
		out = out[:random.IntN(len(out))]
	case 2:
		i, n := random.IntN(len(out)), random.IntN(20)
		out = append(out[:i], out[min(len(out), i+n):]...)
	case 3:
		i, n := random.IntN(len(out)), random.IntN(40)
		out = append(out[:i:i], append(b[i:min(len(b), i+n):min(len(b), i+n)], b[i:]...)...)
	}
	for range random.IntN(4) {
		if len(out) > 0 {
			out[random.IntN(len(out))] ^= byte(1 + random.IntN(255))
		}
	}
	return out
}

// secured asks for TLS as a client does, with the flags of a greeting's answer.
func secured(c net.Conn, answer []byte) (net.Conn, error) {
	hello := make([]byte, 32)
	copy(hello, answer[packetHeader:])
	binary.LittleEndian.PutUint32(hello, binary.LittleEndian.Uint32(hello)|1<<11) // CLIENT_SSL
	head := make([]byte, packetHeader)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[0])|int64(head[1])<<8); err != nil {
		return nil, err
	}
	if _, err := c.Write(append([]byte{32, 0, 0, 1}, hello...)); err != nil {
		return nil, err
	}
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true}), nil
}

// TestRandomBytes: bytes of any kind against the SQL port are errors at most, with TLS and without,
// before a login and after it.
func TestRandomBytes(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	s, c := startServer(t, memkv.New(4, "eu", "us"), func(cfg *Config) {
		cfg.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	})
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(20))")
	exec(t, c, "CREATE TABLE nobody_names_it (id INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO nobody_names_it VALUES (1), (2)")
	said := recorded(t, s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	answer := packetHeader + int(said[0]) + int(said[1])<<8
	for i := range 400 {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, over := mutated(random, said), conn
		if random.IntN(2) == 0 { // it logs in first
			b = append(append([]byte(nil), said[:answer]...), mutated(random, said[answer:])...)
		}
		if i%2 == 0 {
			first := said
			if random.IntN(4) == 0 {
				first = mutated(random, said[:answer])
				first = append(first, make([]byte, answer)...)
			} else if len(b) > 3 {
				b[3]++ // the number of the packet
			}
			if over, err = secured(conn, first); err != nil {
				over = conn
			}
		}
		go func() {
			_, _ = over.Write(b) // the server may have closed it
			if half, ok := over.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, over) // until the server closes it
		conn.Close()
	}
	// A mutated INSERT may be a good one, so t may have any rows.
	if out := query(t, c, "SELECT COUNT(*) FROM nobody_names_it"); out[0] != "2" {
		t.Errorf("afterwards: %v", out)
	}
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes of statements were not given back", n)
	}
}
