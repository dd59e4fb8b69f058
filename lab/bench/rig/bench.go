package rig

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Params is what a benchmark is run with.
type Params struct {
	// Quick asks for a run within a minute on two cores, with fewer points or shorter measurements.
	Quick bool
	// Dir is an empty directory for the data of the run; the caller removes it.
	Dir string
	// Log takes progress for a person to read.
	Log io.Writer
	// Emit takes each result as soon as it is known.
	Emit func(Line) error
	// Rows is how many rows to load, of a benchmark that is sized; 0: as many as it takes by
	// itself.
	Rows int
	// Only are the figures to run, of a benchmark that can be run in parts; empty: all.
	Only []string
}

// Wants reports whether a figure was asked for.
func (p *Params) Wants(figure string) bool {
	return len(p.Only) == 0 || slices.Contains(p.Only, figure)
}

// Bench regenerates the figures and tables of one paper.
type Bench struct {
	// Name is what `godwit bench` calls it, in lower case ("relay").
	Name string
	// Title says in one line what it shows.
	Title string
	// Figures are the names of the figures that it regenerates ("6a", "table 3").
	Figures []string
	// Parts says that its figures can be run one by one.
	Parts bool
	// Sized says that it heeds [Params.Rows].
	Sized bool
	Run   func(ctx context.Context, p Params) error
}

// Part checks the names of figures that the caller asks for and puts the benchmark's name in front
// of those that lack it.
func (b Bench) Part(figures []string) (only []string, err error) {
	if len(figures) > 0 && !b.Parts {
		return nil, fmt.Errorf("benchmark %s runs as a whole: leave out --figure", b.Name)
	}
	for _, f := range figures {
		if !strings.Contains(f, "/") {
			f = b.Name + "/" + f
		}
		if !slices.Contains(b.Figures, f) {
			return nil, fmt.Errorf("benchmark %s has no figure %q: it has %s", b.Name, f, strings.Join(b.Figures, ", "))
		}
		only = append(only, f)
	}
	return only, nil
}
