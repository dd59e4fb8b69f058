package node

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/server"
)

// TestSecureTransportStays: a cluster that takes clients with TLS only does so after a restart.
func TestSecureTransportStays(t *testing.T) {
	p := single(t, nil) // not beside others: the variable is one of the process
	t.Cleanup(func() {
		_ = server.SetVariables(sqlParams{Connections: server.MaxConnections, ConnectTimeout: 10,
			WaitTimeout: 28800, LongQuery: 10}.variables())
	})
	if err := mysql.RegisterTLSConfig("any", &tls.Config{InsecureSkipVerify: true}); err != nil {
		t.Fatal(err)
	}
	login := func(options string) error {
		c, err := sql.Open("mysql", "root@tcp("+p.n.SQLAddr()+")/?"+options)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Ping()
	}
	if err := errors.Join(login(""), login("tls=any")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.sql(t).Exec("SET CLUSTER SETTING sql.require_secure_transport = on"); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		var e *mysql.MySQLError
		if err := login(""); !errors.As(err, &e) || e.Number != 3159 {
			t.Errorf("%s: a client without TLS: %v", when, err)
		}
		if err := login("tls=any"); err != nil {
			t.Errorf("%s: a client with TLS: %v", when, err)
		}
	}
	refused("at once")
	p.stop(t)
	p.start(t)
	p.ready(t)
	refused("after a restart")
}
