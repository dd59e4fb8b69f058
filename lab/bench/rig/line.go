package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// Better says whether a larger or a smaller value is the better one.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Line is one point of a figure. As JSON it is one object a line, with exactly these fields; a
// value that does not exist is null.
type Line struct {
	Figure string  `json:"figure"` // paper and figure, "relay/6a"
	Series string  `json:"series"` // the curve or bar the point belongs to
	X      any     `json:"x"`      // a number or a string
	Metric string  `json:"metric"` // what was measured, "throughput"
	Unit   string  `json:"unit"`   // "txn/s", "ms", "RTT"
	Value  float64 `json:"value"`
	// Baseline is the same metric of the system that the series is compared with, measured in the
	// same run.
	Baseline *float64 `json:"baseline"`
	// Ratio is Value/Baseline. Emit fills it.
	Ratio *float64 `json:"ratio"`
	// Paper is the ratio that the paper reports for this point.
	Paper *float64 `json:"paper"`
	// Better is Higher or Lower.
	Better string `json:"better"`
}

// Float makes an optional field of a Line.
func Float(v float64) *float64 { return &v }

// complete fills Ratio, and refuses a line that a reader could not use.
func (l *Line) complete() error {
	var errs []error
	for _, f := range []struct{ name, v string }{{"figure", l.Figure}, {"series", l.Series}, {"metric", l.Metric},
		{"unit", l.Unit}} {
		if f.v == "" {
			errs = append(errs, fmt.Errorf("%s is empty", f.name))
		}
	}
	switch l.X.(type) {
	case string, int, int64, float64:
	default:
		errs = append(errs, fmt.Errorf("x is a %T: give a number or a string", l.X))
	}
	if l.Better != Higher && l.Better != Lower {
		errs = append(errs, fmt.Errorf("better is %q: give %s or %s", l.Better, Higher, Lower))
	}
	for _, v := range []*float64{&l.Value, l.Baseline, l.Paper} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			errs = append(errs, fmt.Errorf("%v is no figure", *v))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("bad result %s %s: %w", l.Figure, l.Series, errors.Join(errs...))
	}
	l.Ratio = nil
	if l.Baseline != nil && *l.Baseline != 0 {
		l.Ratio = Float(l.Value / *l.Baseline)
	}
	return nil
}

// gain says how many times better a ratio is than 1; below 1 it is worse.
func (l *Line) gain(ratio float64) float64 {
	if l.Better == Lower {
		if ratio == 0 {
			return math.Inf(1)
		}
		return 1 / ratio
	}
	return ratio
}

// Verdict says in words how the point compares with its baseline and with the paper.
func (l *Line) Verdict() string {
	if l.Ratio == nil {
		return ""
	}
	g := l.gain(*l.Ratio)
	var v string
	switch {
	case math.IsInf(g, 1):
		return "better: none at all"
	case g >= 1.005:
		v = fmt.Sprintf("%.2fx better", g)
	case g <= 0.995:
		v = fmt.Sprintf("%.2fx as good", g)
	default:
		v = "equal"
	}
	if l.Paper == nil {
		return v
	}
	if p := l.gain(*l.Paper); g >= p {
		return fmt.Sprintf("%s, reaches the paper's %.2fx", v, p)
	} else {
		return fmt.Sprintf("%s, below the paper's %.2fx", v, p)
	}
}

// Sink writes lines, as JSON objects or as a table that is complete after Close.
type Sink struct {
	out  io.Writer
	json *json.Encoder
	tab  *tabwriter.Writer
	last string // figure
}

// NewSink writes to out; a table's rows appear figure by figure.
func NewSink(out io.Writer, asJSON bool) *Sink {
	s := &Sink{out: out}
	if asJSON {
		s.json = json.NewEncoder(out)
	}
	return s
}

// Emit writes one line.
func (s *Sink) Emit(l Line) error {
	if err := l.complete(); err != nil {
		return err
	}
	if s.json != nil {
		return s.json.Encode(l)
	}
	if l.Figure != s.last {
		if err := s.Close(); err != nil {
			return err
		}
		if s.last != "" {
			fmt.Fprintln(s.out)
		}
		s.last = l.Figure
		if _, err := fmt.Fprintf(s.out, "%s\n", l.Figure); err != nil {
			return err
		}
		s.tab = tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(s.tab, "  series\tx\tmetric\tvalue\tbaseline\tratio\tpaper\tverdict\n")
	}
	opt := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.4g", *v)
	}
	_, err := fmt.Fprintf(s.tab, "  %s\t%v\t%s (%s)\t%.4g\t%s\t%s\t%s\t%s\n", l.Series, l.X, l.Metric, l.Unit, l.Value,
		opt(l.Baseline), opt(l.Ratio), opt(l.Paper), l.Verdict())
	return err
}

// Close writes what is left of the table.
func (s *Sink) Close() error {
	if s.tab == nil {
		return nil
	}
	err := s.tab.Flush()
	s.tab = nil
	return err
}
