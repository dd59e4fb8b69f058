package server

import (
	"log/slog"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
)

// TestRootPassword: a server makes root with the password whose hash it knows, and leaves it to
// others if it does not know.
func TestRootPassword(t *testing.T) {
	hash, err := PasswordHash("secret")
	if err != nil {
		t.Fatal(err)
	}
	db := memkv.New(4, "eu", "us")
	serve := func(cfg Config) (*Server, error) {
		cfg.DB, cfg.Listen, cfg.Logger = db, "127.0.0.1:0", slog.New(slog.DiscardHandler)
		s, err := New(cfg)
		if err == nil {
			go s.Serve()
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	late, err := serve(Config{AwaitRoot: true})
	if base.CodeOf(err) != base.CodeUnavailable {
		t.Fatalf("a server that does not know root's password: %v, %v", late, err)
	}
	for _, cfg := range []Config{{RootAuth: hash}, {AwaitRoot: true}} {
		s, err := serve(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for password, want := range map[string]uint16{"secret": 0, "": 1045, "Secret": 1045} {
			if got := login(t, s, "root", password, ""); got != want {
				t.Errorf("password %q: %d, want %d", password, got, want)
			}
		}
	}
}
