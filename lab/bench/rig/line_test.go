package rig

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func sample() Line {
	return Line{Figure: "relay/6a", Series: "relay", X: 4, Metric: "throughput", Unit: "txn/s", Value: 300,
		Baseline: Float(100), Paper: Float(2.5), Better: Higher}
}

func TestJSONHasEveryField(t *testing.T) {
	var out bytes.Buffer
	s := NewSink(&out, true)
	l := sample()
	if err := s.Emit(l); err != nil {
		t.Fatal(err)
	}
	l.Baseline, l.Paper = nil, nil
	if err := s.Emit(l); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one an object", len(lines))
	}
	for i, want := range []string{"3", "null"} {
		var o map[string]json.RawMessage
		if err := json.Unmarshal([]byte(lines[i]), &o); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"figure", "series", "x", "metric", "unit", "value", "baseline", "ratio", "paper", "better"} {
			if _, ok := o[f]; !ok {
				t.Errorf("field %s is missing in %s", f, lines[i])
			}
		}
		if string(o["ratio"]) != want {
			t.Errorf("ratio is %s, want %s", o["ratio"], want)
		}
	}
}

func TestTableAndVerdicts(t *testing.T) {
	var out bytes.Buffer
	s := NewSink(&out, false)
	below := sample()
	below.Value = 200
	lower := sample()
	lower.Figure, lower.Better, lower.Value, lower.Paper = "relay/6b", Lower, 50, nil
	none := lower
	none.Value = 0
	for _, l := range []Line{sample(), below, lower, none} {
		if err := s.Emit(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3.00x better, reaches the paper's 2.50x", "2.00x better, below the paper's 2.50x",
		"relay/6b\n", "2.00x better\n", "better: none at all\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestEmitRefusesNonsense(t *testing.T) {
	for name, spoil := range map[string]func(*Line){
		"figure is empty":    func(l *Line) { l.Figure = "" },
		"x is a <nil>":       func(l *Line) { l.X = nil },
		"better is \"more\"": func(l *Line) { l.Better = "more" },
		"NaN is no figure":   func(l *Line) { l.Value = math.NaN() },
	} {
		l := sample()
		spoil(&l)
		if err := NewSink(new(bytes.Buffer), true).Emit(l); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
