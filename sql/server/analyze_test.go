package server

import "testing"

// TestAnalyzeTable: ANALYZE TABLE takes the estimates of a table before it returns.
func TestAnalyzeTable(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(t, c, "INSERT INTO t VALUES (1, 1), (2, 1), (3, NULL)")
	query(t, c, "ANALYZE TABLE t")
	snap, err := s.g.Catalog.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sample, keys := s.g.Stats.Sample(snap.Table("test", "t"))
	if sample == nil || sample.Rows != 3 || sample.Columns[1].Distinct != 1 || len(keys) != 1 {
		t.Errorf("%+v, %v", sample, keys)
	}
}
