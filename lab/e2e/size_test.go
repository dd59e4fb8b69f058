package e2e

import (
	"database/sql"
	"testing"
	"time"
)

// TestOneRegionOfThreeNodes: a cluster in one region survives any of its nodes.
func TestOneRegionOfThreeNodes(t *testing.T) { survivesAnyNode(t, 1, 3) }

// TestTwoRegions: with one node in each of two regions, neither has a majority without the other.
// While one is down nothing is written, and nothing that was acknowledged is lost. As soon as it is
// back, writes go on.
func TestTwoRegions(t *testing.T) {
	c, bank, l := underLoad(t, 2, 1, "bank")
	for _, victim := range c.nodes {
		l.advances(t, 20, c.regions...)
		victim.kill()
		other := c.nodes[0]
		if other == victim {
			other = c.nodes[1]
		}
		if l.stands(t, other) {
			t.Errorf("%s writes without a majority", other.region)
		}
		victim.start(t)
		begin := time.Now()
		victim.awaitSQL(t)
		l.advances(t, 20, c.regions...)
		t.Logf("started %s again: both regions had committed 20 more transactions after %s", victim.region,
			time.Since(begin).Round(10*time.Millisecond))
	}
	bank.finish(t)
	l.compare(t, "ledger")
}

// TestLocksOfAKilledGateway: when a gateway is killed, the locks of its clients are released within
// seconds.
func TestLocksOfAKilledGateway(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	l := openLedger(t, c, "ledger")
	l.close()
	tx, err := c.nodes[2].open(t, "ledger").BeginTx(t.Context(), &sql.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // its server is dead
	if _, err := tx.Exec("UPDATE counter SET probe = 1000 WHERE region = 0"); err != nil {
		t.Fatal(err)
	}
	c.nodes[2].kill()
	took := l.serves(t, "ledger", c.nodes[0], 0)
	t.Logf("the lock was free after %s", took.Round(10*time.Millisecond))
	var probe int
	scan1(t, c.nodes[1].open(t, "ledger"), &probe, "SELECT probe FROM counter WHERE region = 0")
	if probe != 1 {
		t.Errorf("the row says %d: what the killed gateway's client never committed is there", probe)
	}
}
