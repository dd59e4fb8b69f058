package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
)

// TestAnalyzeTable: ANALYZE TABLE takes the estimates of a table before it returns.
func TestAnalyzeTable(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	query(t, c, "ANALYZE TABLE t")
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

// TestAnalyzedNames: the answer names tables with their databases, also of temporary ones.
func TestAnalyzedNames(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, c, "CREATE DATABASE other")
	exec(t, c, "CREATE TABLE other.U (id INT PRIMARY KEY)")
	exec(t, c, "CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY)")
	for q, want := range map[string]string{
		"ANALYZE TABLE t, other.U": "[test.t|analyze|status|OK other.U|analyze|status|OK]",
		"ANALYZE TABLE tmp":        "[test.tmp|analyze|status|OK]",
	} {
		if got := fmt.Sprint(query(t, c, q)); got != want {
			t.Errorf("%s: %s, not %s", q, got, want)
		}
	}
}

// readsAt has replicas that are complete up to a moment.
type readsAt struct {
	Reads // nil: nothing else is asked
	at    base.Timestamp
}

func (r *readsAt) ReadPoint(context.Context, base.Timestamp, time.Duration) (base.Timestamp, bool) {
	return r.at, true
}

// TestSampleOfReplicas: the estimates that nobody asked for are of a moment that replicas nearby
// show; ANALYZE TABLE reads the present.
func TestSampleOfReplicas(t *testing.T) {
	db, replicas := memkv.New(4, "eu", "us"), &readsAt{}
	s, c := startServer(t, db, func(cfg *Config) { cfg.Reads = replicas })
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO t VALUES (1), (2), (3)")
	replicas.at = db.Time()
	exec(t, c, "INSERT INTO t VALUES (4), (5)")
	snap, err := s.g.Catalog.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	def := snap.Table("test", "t")
	sample, _ := s.g.Stats.Sample(def)
	for ; sample == nil; sample, _ = s.g.Stats.Sample(def) {
		time.Sleep(time.Millisecond)
	}
	if sample.Rows != 3 {
		t.Errorf("%v rows before ANALYZE", sample.Rows)
	}
	query(t, c, "ANALYZE TABLE t")
	if sample, _ = s.g.Stats.Sample(def); sample.Rows != 5 {
		t.Errorf("%v rows after ANALYZE", sample.Rows)
	}
}
