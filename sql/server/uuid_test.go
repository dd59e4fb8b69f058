package server

import (
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestUUIDKeys: keys that UUID() makes for inserted rows begin with the region of the client's
// gateway.
func TestUUIDKeys(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	_, eu := startServer(t, db)
	_, us := startServer(t, db.Gateway(2))
	exec(t, eu, "CREATE TABLE t (id CHAR(36) DEFAULT (UUID()) PRIMARY KEY, v INT)")
	exec(t, eu, "CREATE TABLE b (id BINARY(16) PRIMARY KEY, v INT)")
	exec(t, eu, "INSERT INTO t VALUES (UUID(), 1), (UUID(), 2)")
	exec(t, us, "INSERT INTO t (v) VALUES (3), (4)")
	exec(t, us, "INSERT INTO t SELECT UUID(), v + 4 FROM t WHERE v = 1")
	exec(t, us, "INSERT INTO b VALUES (UUID_TO_BIN(UUID()), 1)")
	expect(t, eu, "SELECT v, LEFT(id, 1), IS_UUID(id) FROM t ORDER BY id", "1|1|1", "2|1|1", "3|2|1", "4|2|1", "5|2|1")
	expect(t, eu, "SELECT LEFT(HEX(id), 1) FROM b", "2")
	expect(t, eu, "SELECT COUNT(DISTINCT UUID()) FROM t", "5")
	one := memkv.New(2)
	_, c := startServer(t, one)
	exec(t, c, "CREATE TABLE t (id CHAR(36) PRIMARY KEY)")
	exec(t, c, "INSERT INTO t VALUES (UUID())")
	expect(t, c, "SELECT MID(id, 15, 1) FROM t", "4") // random: there is one region
}
