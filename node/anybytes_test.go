package node

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/node/bundle"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/node/web"
)

// spoken are requests as they are sent. They ask for nothing that an administrator could not undo.
func spoken() (all []string) {
	post := func(path, body string) {
		all = append(all, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"+body)
	}
	for _, path := range []string{cluster.PathStatus, "/health", "/ready", "/metrics", "/console/", "/console/api/map", "/debug/pprof/", "/"} {
		all = append(all, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	}
	post(cluster.PathDecommission, `{"node":987654}`)
	post(cluster.PathPromote, `{"region":"nowhere","group":"s1@r99"}`)
	post(cluster.PathLeader, `{"group":"s999@r99","node":987654}`)
	post(cluster.PathClock, `{"mode":"none"}`)
	post(join.PathJoin, `{"uuid":"x","region":"eu","addr":"127.0.0.1:1"}`)
	post(web.PathEnrol, `{"token":"gwt1-AAAA","region":"eu"}`)
	post(residency.Path, `{"placement":"p"}`)
	post(bundle.Path, `{}`)
	post("/console/api/login", `{"user":"root","password":"wrong"}`)
	post("/console/api/sql", `{"sql":"SELECT 1"}`)
	return all
}

// garbled is a request with some of its bytes changed, cut, repeated or made up.
func garbled(random *rand.Rand, all []string) []byte {
	b := []byte(all[random.IntN(len(all))])
	switch random.IntN(5) {
	case 0:
		b = make([]byte, random.IntN(3000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
	case 1:
		b = b[:random.IntN(len(b)+1)]
	case 2:
		b = append(b, []byte(all[random.IntN(len(all))])...)
	case 3:
		at := random.IntN(len(b))
		b = []byte(string(b[:at]) + strings.Repeat(string(b[at:at+1]), random.IntN(1<<17)) + string(b[at:]))
	}
	for range random.IntN(6) {
		if len(b) > 0 {
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		}
	}
	return b
}

// TestAnyBytes: bytes of any kind against the ports for nodes and for administrators are refused,
// with TLS and without, from nobody and from an administrator. (Package wan has what nodes say to
// each other, and sql/server the port for SQL.)
func TestAnyBytes(t *testing.T) {
	t.Parallel()
	secure := single(t, func(c *Config) { c.AdminListen = "127.0.0.1:0" })
	plain := single(t, func(c *Config) { c.Insecure, c.AdminListen = true, "127.0.0.1:0" })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, all := rand.New(rand.NewPCG(seed, 1)), spoken()
	known := admin(t).Transport.(*http.Transport).TLSClientConfig
	for i := range 600 {
		p := secure
		if i%2 == 0 {
			p = plain
		}
		at := p.n.Addr()
		if random.IntN(2) == 0 {
			at = p.n.AdminAddr()
		}
		under, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = under.SetDeadline(time.Now().Add(10 * time.Second)) // no bound of the test: it goes on with the next one
		conn := under
		if p == secure && random.IntN(8) > 0 {
			cfg := &tls.Config{InsecureSkipVerify: true}
			if random.IntN(2) == 0 {
				cfg = known.Clone()
				cfg.NextProtos = nil
			}
			conn = tls.Client(under, cfg)
		}
		b := garbled(random, all)
		go func() {
			_, _ = conn.Write(b) // the server may have closed it
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}()
		_, _ = io.Copy(io.Discard, conn)
		under.Close()
	}
	for _, p := range []*proc{secure, plain} {
		if n := len(p.n.cluster.Topology().Nodes); n != 1 {
			t.Errorf("the cluster has %d nodes", n)
		}
		if _, err := p.sql(t).Exec("CREATE DATABASE afterwards"); err != nil {
			t.Error(err)
		}
	}
}
