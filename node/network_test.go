package node

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/matrix"
)

// TestNetworkSettings switches relays and fan-out on and off by SQL, under writes, and sees in
// godwit.links that they are used.
func TestNetworkSettings(t *testing.T) { bubble(t, networkSettings) }

func networkSettings(t *testing.T) {
	t.Helper()
	ms := time.Millisecond
	m := &matrix.Matrix{Names: []string{"a", "b", "c"},
		RTT: [][]time.Duration{{0, 20 * ms, 120 * ms}, {20 * ms, 0, 20 * ms}, {120 * ms, 20 * ms, 0}}}
	l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 2})
	var conns []*sql.Conn
	for _, n := range l.Nodes() {
		c, err := sqlPool(t, n).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	exec := func(q string) {
		t.Helper()
		if _, err := conns[0].ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for _, bad := range []string{"network.relay = 'perhaps'", "network.relay_min_gain_ms = 0",
		"network.relay_window_ms = 10", "network.coordinates_above = -1", "wan.batching = 'perhaps'"} {
		if _, err := conns[0].ExecContext(t.Context(), "SET CLUSTER SETTING "+bad); err == nil {
			t.Errorf("SET CLUSTER SETTING %s is taken", bad)
		}
	}
	exec("CREATE DATABASE d")
	// in the meta shard, which all nodes hold
	exec("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT) LOCALITY GLOBAL")
	exec("SET CLUSTER SETTING network.relay = true")
	if got := column(t, conns[0], "SHOW CLUSTER SETTING network.fan_out"); len(got) != 1 || !strings.Contains(got[0], "true") {
		t.Errorf("fan_out is %v to begin with", got)
	}
	exec("SET CLUSTER SETTING network.relay_window_ms = 250")
	rows := 0
	links := func(what string, cond string) {
		t.Helper()
		until(t, what, func() string {
			rows++
			exec(fmt.Sprintf("INSERT INTO d.t VALUES (%d, REPEAT('x', 500))", rows))
			n, all := 0, []string{}
			for _, c := range conns {
				n += len(column(t, c, "SELECT peer FROM godwit.links WHERE "+cond))
				all = append(all, column(t, c, "SELECT peer, region, relay, relay_gain_ms, relayed_messages, "+
					"fan_out_proxy, shared_messages, saved_bytes FROM godwit.links")...)
			}
			if n == 0 {
				return strings.Join(all, "\n")
			}
			return ""
		})
	}
	links("a relay", "relay IS NOT NULL AND relay_gain_ms > 5 AND relayed_messages > 0 AND region IN ('a', 'c')")
	links("a fan-out proxy", "fan_out_proxy IS NOT NULL AND shared_messages > 0 AND saved_bytes > 0")
	exec("SET CLUSTER SETTING network.relay = false")
	exec("SET CLUSTER SETTING network.fan_out = false")
	exec("SET CLUSTER SETTING wan.batching = false")
	exec("SET CLUSTER SETTING network.coordinates_above = 3")
	until(t, "coordinates", func() string {
		for i, n := range l.Nodes() {
			if s := n.Cluster().Map(); !s.Coordinates || s.Samples == 0 || s.Error == 0 {
				return fmt.Sprintf("node %d: %+v", i+1, s)
			}
		}
		// It is still what was measured that counts, while it is new.
		got := column(t, conns[0], "SELECT peer FROM godwit.links WHERE region = 'c' AND rtt_ms BETWEEN 119 AND 140 "+
			"AND NOT rtt_estimated AND writes > 0")
		if len(got) != 2 {
			return strings.Join(column(t, conns[0], "SELECT peer, region, rtt_ms, rtt_estimated, writes FROM godwit.links"), "\n")
		}
		return ""
	})
	exec("SET CLUSTER SETTING wan.batching = DEFAULT")
	exec("SET CLUSTER SETTING network.coordinates_above = DEFAULT")
	until(t, "all round trips to be measured", func() string {
		for i, n := range l.Nodes() {
			if s := n.Cluster().Map(); s.Coordinates || s.Estimated > 0 {
				return fmt.Sprintf("node %d: %+v", i+1, s)
			}
		}
		return ""
	})
	until(t, "all messages to go directly", func() string {
		for i, c := range conns {
			if got := column(t, c, "SELECT peer FROM godwit.links WHERE relay IS NOT NULL OR fan_out_proxy "+
				"IS NOT NULL"); len(got) > 0 {
				return fmt.Sprintf("node %d still sends to %v over others", i+1, got)
			}
		}
		return ""
	})
	for i, c := range conns {
		until(t, "all rows everywhere", func() string {
			if got := column(t, c, "SELECT COUNT(*) FROM d.t")[0]; got != fmt.Sprint(rows) {
				return fmt.Sprintf("node %d has %s of %d rows", i+1, got, rows)
			}
			return ""
		})
	}
}
