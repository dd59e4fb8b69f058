package late

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/dolthub/vitess/go/mysql"
)

// lasting is a connection that is not over.
type lasting struct{ net.Conn }

func (lasting) Over() bool { return false }

// TestHasEnded: TLS that was told of the end knows it while the connection below is still there,
// and one whose client is only silent has not ended, and goes on.
func TestHasEnded(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	a, b := net.Pipe()
	server, client := tls.Server(lasting{a}, &tls.Config{Certificates: web.TLS.Certificates}), tls.Client(b, &tls.Config{InsecureSkipVerify: true})
	said := make(chan string)
	go func() {
		for text := range said {
			_, _ = io.WriteString(client, text)
		}
		_ = client.CloseWrite()
	}()
	read := func(want string, wantErr error) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(server, got); err != wantErr || string(got) != want && err == nil {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	c := &mysql.Conn{Conn: &conn{Conn: server}}
	said <- "one"
	read("one", nil)
	if HasEnded(c) {
		t.Error("a silent client has ended")
	}
	go func() { said <- "two" }()
	read("two", nil)
	close(said)
	read("x", io.EOF)
	if !HasEnded(c) {
		t.Error("a client that said so has not ended")
	}
	if !HasEnded(&mysql.Conn{Conn: over{a}}) {
		t.Error("a connection that is over has not ended")
	}
}

// over is a connection that is over.
type over struct{ net.Conn }

func (over) Over() bool { return true }
