package sim

import (
	"context"
	"database/sql"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
)

func TestSQLProbe(t *testing.T) {
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 2, Delay: even(3, 20*time.Millisecond), LAN: time.Millisecond, ClockBound: time.Millisecond, GCAge: time.Hour, SQL: true}
		w := newWorld(cfg)
		for _, h := range w.hosts {
			h.boot()
		}
		time.Sleep(10 * time.Second)
		mc := mysql.NewConfig()
		mc.User, mc.Net = "root", "tcp"
		mc.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.hosts[0].sql.dial(ctx) }
		conn, err := mysql.NewConnector(mc)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(conn)
		for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))", "INSERT INTO d.t VALUES (1,'a'),(2,'b'),(3,'c')", "UPDATE d.t SET v='x' WHERE id=2"} {
			began := time.Now()
			if _, err := db.Exec(q); err != nil {
				t.Error(err)
				break
			}
			t.Log(time.Since(began), q)
		}
		db.Close()
		w.close()
		t.Log(w.err())
		if t.Failed() {
			t.Log(w.log.text())
		}
	})
}
