package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestNoTripPerRow counts kv calls: no plan may pay one per row.
func TestNoTripPerRow(t *testing.T) {
	db := memkv.New(4, "eu", "us")
	_, c := startServer(t, db)
	exec(t, c, "CREATE TABLE o (id INT PRIMARY KEY, cust INT, KEY (cust))")
	exec(t, c, "CREATE TABLE l (o INT, n INT, item INT, PRIMARY KEY (o, n), KEY (item))")
	exec(t, c, "CREATE TABLE i (id INT PRIMARY KEY, code VARCHAR(10), UNIQUE KEY (code))")
	const n = 300
	var o, l, i []string
	for k := range n {
		o = append(o, fmt.Sprintf("(%d,%d)", k, k%7))
		l = append(l, fmt.Sprintf("(%d,1,%d),(%d,2,%d)", k, k, k, (k+1)%n))
		i = append(i, fmt.Sprintf("(%d,'c%d')", k, k))
	}
	for _, q := range []string{
		"INSERT INTO o VALUES " + strings.Join(o, ","), "INSERT INTO l VALUES " + strings.Join(l, ","),
		"INSERT INTO i VALUES " + strings.Join(i, ","),
	} {
		calls := db.Calls()
		exec(t, c, q)
		if d := db.Calls() - calls; d > 10 {
			t.Errorf("insert of many rows: %d kv calls", d)
		}
	}
	for _, tt := range []struct{ q, want string }{
		{"SELECT /*+ LOOKUP_JOIN(o,l) JOIN_ORDER(o,l) */ COUNT(*) FROM o JOIN l ON l.o = o.id", "600"},
		{"SELECT /*+ LOOKUP_JOIN(l,i) JOIN_ORDER(l,i) */ COUNT(*) FROM l JOIN i ON i.id = l.item", "600"},
		{"SELECT /*+ LOOKUP_JOIN(i,l) JOIN_ORDER(i,l) */ COUNT(*) FROM i JOIN l ON l.item = i.id WHERE i.code LIKE 'c%'", "600"},
		{"SELECT /*+ LOOKUP_JOIN(o,l) LOOKUP_JOIN(l,i) JOIN_ORDER(o,l,i) */ COUNT(*) FROM o JOIN l ON l.o = o.id JOIN " +
			"i ON i.id = l.item", "600"},
		{"SELECT /*+ LOOKUP_JOIN(a,b) JOIN_ORDER(a,b) */ COUNT(*) FROM i a LEFT JOIN i b ON b.code = CONCAT(a.code, '0')", "300"},
		{"SELECT COUNT(*) FROM o WHERE id IN (SELECT item FROM l)", "300"},
		{"SELECT COUNT(*) FROM o WHERE cust IN (1,3,5)", "129"},
		{"SELECT SUM(n) FROM (SELECT (SELECT code FROM i WHERE i.id = o.id) n FROM o) x", "0"},
		{"SELECT COUNT(*) FROM o WHERE id < (SELECT SUM(n) + o.id FROM l WHERE l.o = o.id)", "300"},
		{"SELECT COUNT(*) FROM o WHERE id = (SELECT MAX(item) FROM l WHERE l.o = o.id AND l.n = 1)", "300"},
		{"SELECT COUNT(*) FROM i WHERE id IN (" + strings.Trim(strings.Repeat("7,8,9,", 50), ",") + ")", "3"},
	} {
		calls := db.Calls()
		expect(t, c, tt.q, tt.want)
		if d := db.Calls() - calls; d > 60 {
			t.Errorf("%s: %d kv calls", tt.q, d)
		}
	}
	for _, q := range []string{
		"UPDATE o SET cust = (SELECT MAX(item) + 5 FROM l WHERE l.o = o.id)",
		"UPDATE l SET item = (SELECT cust - 5 FROM o WHERE o.id = l.o) - 1",
		"DELETE FROM o WHERE (SELECT COUNT(*) FROM l WHERE l.o = o.id) = 0",
		"INSERT INTO i SELECT id + 1000, (SELECT CONCAT('d', MAX(item), '.', o.id) FROM l WHERE l.o = o.id) FROM o",
		"DELETE FROM i WHERE id >= 1000",
		"ALTER TABLE l ADD FOREIGN KEY (o) REFERENCES o(id)",
	} {
		calls := db.Calls()
		exec(t, c, q)
		if d := db.Calls() - calls; d > 60 {
			t.Errorf("%s: %d kv calls", q, d)
		}
	}
	expect(t, c, "SELECT SUM(item), COUNT(*) FROM l", "89698|600")
	exec(t, c, "UPDATE l SET item = 5000 WHERE o = 290")
	expectErr(t, c, 1452, "ALTER TABLE l ADD FOREIGN KEY (item) REFERENCES o(id)")
	exec(t, c, "ALTER TABLE l DROP FOREIGN KEY l_ibfk_1")
	calls := db.Calls()
	exec(t, c, "UPDATE l SET n = n + 10")
	exec(t, c, "DELETE FROM o WHERE id >= 10")
	if d := db.Calls() - calls; d > 30 {
		t.Errorf("changes of many rows: %d kv calls", d)
	}
	expect(t, c, "SELECT COUNT(*), SUM(n) FROM l", "600|6900")
}
