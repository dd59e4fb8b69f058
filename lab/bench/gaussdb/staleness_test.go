package gaussdb

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// TestMeasureStaleness runs in real time, where it can assert only that the values are plausible.
// Package sim asserts the figure.
func TestMeasureStaleness(t *testing.T) {
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	l, err := node.StartLocal(t.Context(), node.LocalConfig{Matrix: m, NodesPerRegion: 1, Dir: t.TempDir()},
		slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.Background()) }()
	var s Staleness
	for s.Reads <= 10 { // a busy machine is late
		s = MeasureStaleness(t.Context(), l.Nodes()[0].Cluster(), 300*time.Millisecond)
	}
	if s.Reads == 0 || s.Median <= 0 || s.P99 < s.Median || s.OneWay <= 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("%+v", s)
}
