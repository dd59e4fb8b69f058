package wan

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

func TestSplitHTTP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	frames, web := SplitHTTP(ln)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello "+r.URL.Path)
	})}
	go srv.Serve(web)
	defer srv.Close()
	server, err := NewTCP(TCPOptions{Self: 1, Region: 1, ClusterID: "c", Listener: frames})
	if err != nil {
		t.Fatal(err)
	}
	server.Handle(wire.KindAsk, func(_ context.Context, from base.NodeID, body []byte) (Msg, error) {
		return &wire.AskResponse{Body: []byte("pong")}, nil
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := NewTCP(TCPOptions{Self: 2, Region: 2, ClusterID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetPeer(1, ln.Addr().String(), 1)

	var res wire.AskResponse
	if err := client.Call(t.Context(), 1, wire.KindAsk, &wire.AskRequest{Name: "ping"}, &res); err != nil ||
		string(res.Body) != "pong" {
		t.Fatalf("call over the shared port: %q, %v", res.Body, err)
	}
	r, err := http.Get("http://" + ln.Addr().String() + "/path")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, _ := io.ReadAll(r.Body); string(b) != "hello /path" {
		t.Fatalf("HTTP over the shared port: %q", b)
	}
}
